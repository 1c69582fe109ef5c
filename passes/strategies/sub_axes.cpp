#include "passes/strategies/sub_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace tpc {

DeviceMesh split_for_kv_heads(const Graph& graph, const DeviceMesh& mesh) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    std::set<int64_t> cuts;
    if (axis.name == "tp") {
      for (const Node& node : graph.nodes) {
        if (node.op != OpKind::kAttention) continue;
        int64_t heads = graph.value(node.operands[0]).type.shape[2];
        int64_t kv_heads = graph.value(node.operands[1]).type.shape[2];
        if (kv_heads > 1 && kv_heads < heads && kv_heads < axis.size && axis.size % kv_heads == 0)
          cuts.insert(kv_heads);
      }
    }
    // Several attentions can share sub-axes only if their kv heads divide one another; others keep K and V whole.
    int64_t outer = 1;
    int64_t index = 0;
    for (int64_t cut : cuts) {
      if (cut % outer != 0 || axis.size % cut != 0 || cut == outer) continue;
      axes.push_back({fmt::format("{}.{}", axis.name, index++), cut / outer});
      outer = cut;
    }
    axes.push_back({index == 0 ? axis.name : fmt::format("{}.{}", axis.name, index), axis.size / outer});
  }
  return DeviceMesh(std::move(axes));
}

DeviceMesh split_as_asked(const DeviceMesh& mesh, const std::vector<int64_t>& sizes) {
  std::vector<MeshAxis> axes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.name != "tp") {
      axes.push_back(axis);
      continue;
    }
    int64_t product = 1;
    for (int64_t size : sizes) product *= size;
    if (product != axis.size) {
      throw UserError(SourceLoc{}, fmt::format("sub-axes {} have {} ranks together, tp has {}", fmt::join(sizes, "x"),
                                               product, axis.size));
    }
    for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({fmt::format("tp.{}", i), sizes[i]});
  }
  return DeviceMesh(std::move(axes));
}

}  // namespace tpc
