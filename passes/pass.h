/// A pass: a free function from graph to graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/optimizer_settings.h"
#include "compiler/sharding/conversion_graph.h"
#include "compiler/sharding/move_price.h"

namespace tpc {

/// What strategy search minimises and what it may choose from.
struct SearchOptions {
  /// Dimensions that no activation, weight or gradient may be split by, as the model names them.
  std::vector<std::string> no_split;
  /// Sizes of the sub-axes into which tp is split, outermost first, for two-dimensional tensor parallelism; empty: only
  /// where fewer kv heads than ranks ask for it.
  std::vector<int64_t> sub_axes;
  /// Any axis may split any dimension; otherwise dp splits the batch of activations, and tp, beside a dp, all but it.
  bool free_axes = false;
  /// Bytes received (picoseconds, by time) that a byte of memory is worth; 0: memory decides between equals only.
  double memory_price = 0;
  bool operator==(const SearchOptions&) const = default;
};

struct ChosenShardings;

struct CompileOptions {
  DeviceMesh mesh;
  std::string strategy = "megatron";
  /// Wishes to strategy megatron.
  bool sequence_parallel = false;
  int zero_stage = 0;
  SearchOptions search;
  /// Bytes that a rank's arena may have (compile_within); 0: no limit.
  int64_t memory_limit = 0;
  /// Choices made already: the strategy is not asked again.
  std::shared_ptr<const ChosenShardings> chosen;
  /// Prove that the plan computes the model; what is compiled only to be measured does without.
  bool prove = true;
  /// Also ask what strategy search would find; not together with stop_after.
  bool compare_with_search = false;
  /// The links of the cluster, when they are known.
  std::vector<AxisLink> links;
  /// What conversions, and strategy search, count: bytes, or time on `links`.
  MovePrice price;
  /// What conversions may do: a search weighs detours, the rules' plans are as people know them.
  Detours detours() const { return strategy == "search" ? Detours::kAny : Detours::kNone; }
  OptimizerSettings optimizer;
  /// The source model, which the plan carries.
  std::string model_json;
  /// Told where long work is, in a few words; may be empty.
  std::function<void(const std::string&)> progress;
  std::vector<std::string> print_after;  ///< pass names, or "all"
  std::string stop_after;
  std::string dump_dir;
};

struct PassContext {
  const CompileOptions& options;
  DiagnosticSink& diagnostics;
};

using PassFunction = Graph (*)(Graph, const PassContext&);

struct PassInfo {
  std::string_view name;     ///< kebab-case
  std::string_view summary;  ///< one line, for docs/passes.md
  Stage needs;
  Stage gives;
  PassFunction run;
};

}  // namespace tpc
