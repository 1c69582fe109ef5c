#include "passes/other_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/diagnostic.h"
#include "passes/fit_memory.h"

namespace tpc {
namespace {

int64_t size_of(const DeviceMesh& mesh, std::string_view axis) {
  int64_t size = 1;
  for (const MeshAxis& item : mesh.axes()) size *= user_axis(item.name) == axis ? item.size : 1;
  return size;
}

class Explorer {
 public:
  Explorer(const Graph& graph, const CompileOptions& options) : graph_(graph), options_(options) {}

  void try_flags() {
    bool is_search = options_.strategy == "search";
    bool has_tp = size_of(options_.mesh, "tp") > 1;
    bool has_dp = size_of(options_.mesh, "dp") > 1;
    if (!is_search && has_tp) {
      attempt(options_.sequence_parallel ? "no --sequence-parallel" : "--sequence-parallel",
              [](CompileOptions& other) { other.sequence_parallel = !other.sequence_parallel; });
    }
    for (int stage : {0, 2, 3}) {
      if (is_search || !has_dp || stage == options_.zero_stage) continue;
      attempt(stage == 0 ? "no --zero" : fmt::format("--zero {}", stage),
              [&](CompileOptions& other) { other.zero_stage = stage; });
    }
    attempt(is_search ? "--strategy megatron" : "--strategy search", [&](CompileOptions& other) {
      other.strategy = is_search ? "megatron" : "search";
      other.sequence_parallel = false;
      other.zero_stage = 0;
    });
  }

  /// Where the links of the axis are known, if any are.
  void try_mesh(const char* axis) {
    int64_t ranks = options_.mesh.world_size();
    const std::vector<AxisLink>& links = options_.links;
    bool is_known = links.empty() ||
                    std::any_of(links.begin(), links.end(), [&](const AxisLink& link) { return link.axis == axis; });
    if (ranks == 1 || size_of(options_.mesh, axis) == ranks || !is_known) return;
    attempt(fmt::format("--mesh {}={}", axis, ranks), [&](CompileOptions& other) {
      other.mesh = DeviceMesh({{axis, ranks}});
      other.search.sub_axes.clear();
      if (std::string_view(axis) == "tp") other.zero_stage = 0;
      if (std::string_view(axis) == "dp") other.sequence_parallel = false;
    });
  }

  void try_layer(const std::string& layer) {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      bool has_weight = (node.op == OpKind::kContract || node.op == OpKind::kEmbedding) && node.layer == layer;
      if (!has_weight || node.phase != Phase::kForward) continue;
      for (const char* word : {"column", "row", "replicate"}) {
        if (node.annotation.layer != word) {
          attempt(fmt::format("\"shard\": \"{}\" on {}", word, layer), n,
                  Annotation{word, {}, node.annotation.pointer});
        }
      }
      if (!node.annotation.empty()) attempt(fmt::format("no \"shard\" on {}", layer), n, Annotation{});
      return;
    }
  }

  OtherPlans take() { return std::move(found_); }

 private:
  template <class Change>
  void attempt(const std::string& name, Change&& change) {
    CompileOptions other = options_;
    change(other);
    compile_as(name, graph_, other);
  }
  void attempt(const std::string& name, size_t node, Annotation annotation) {
    Graph other = graph_;
    other.nodes[node].annotation = std::move(annotation);
    compile_as(name, std::move(other), options_);
  }

  void compile_as(const std::string& name, Graph graph, const CompileOptions& options) {
    DiagnosticSink ignored;
    if (options.progress) options.progress("compiling with " + name);
    try {
      CompileOptions measured = options;
      measured.prove = false;
      Plan plan = compile_within(std::move(graph), measured, ignored).plan;
      Report report = make_report(plan);
      found_.plans.push_back({name, std::move(plan), std::move(report)});
    } catch (const UserError&) {
      found_.impossible.push_back(name);
    }
  }

  const Graph& graph_;
  const CompileOptions& options_;
  OtherPlans found_;
};

}  // namespace

OtherPlans other_plans(const Graph& graph, const CompileOptions& options, const std::vector<std::string>& layers) {
  Explorer explorer(graph, options);
  explorer.try_flags();
  explorer.try_mesh("dp");
  explorer.try_mesh("tp");
  if (options.strategy == "search") return explorer.take();
  for (const std::string& layer : layers) explorer.try_layer(layer);
  return explorer.take();
}

}  // namespace tpc
