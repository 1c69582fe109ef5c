/// A pass: a free function from graph to graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/optimizer_settings.h"

namespace tpc {

struct CompileOptions {
  DeviceMesh mesh;
  std::string strategy = "megatron";
  bool sequence_parallel = false;
  OptimizerSettings optimizer;
  /// The source model, which the plan carries.
  std::string model_json;
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
