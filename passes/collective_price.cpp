#include "passes/collective_price.h"

#include <map>
#include <optional>
#include <tuple>

#include "compiler/ir/move_ops.h"

namespace tpc {

int64_t collective_price(const Graph& graph, const MovePrice& price) {
  using Key = std::tuple<Shape, int64_t, TensorSharding, TensorSharding>;
  std::map<Key, int64_t> known;
  int64_t total = 0;
  for (const Node& node : graph.nodes) {
    std::optional<MoveKind> kind = move_kind(node.op);
    if (!kind || !communicates(*kind)) continue;
    const TensorType& type = graph.value(node.results[0]).type;
    const TensorSharding& to = graph.value(node.results[0]).sharding;
    auto [entry, is_new] = known.try_emplace({type.shape, byte_size(type.dtype), node.operand_shardings[0], to});
    if (is_new) {
      Move move{*kind, node.attributes.get_ints("axes"), node.operand_shardings[0], to};
      entry->second = price(move, type.shape, byte_size(type.dtype), graph.mesh);
    }
    total += entry->second;
  }
  return total;
}

}  // namespace tpc
