/// Runs passes by name and does everything around them, so that a pass is nothing but its rewrite.
#pragma once

#include <string>
#include <string_view>

#include "passes/pass.h"

namespace tpc {

/// Checks the stage a pass needs, runs it, verifies what it promised (always), prints and dumps what was asked for.
/// A broken promise is an InternalError that names the pass; the graphs before and after go to the dump folder.
class PassManager {
 public:
  PassManager(const CompileOptions& options, DiagnosticSink& diagnostics);

  Graph run(std::string_view name, Graph graph);

  /// True once the pass of --stop-after has run; run() then returns graphs unchanged.
  bool stopped() const { return stopped_; }
  /// What --print-after asked for.
  const std::string& printed() const { return printed_; }

 private:
  void dump(std::string_view name, const Graph& graph) const;

  const CompileOptions& options_;
  PassContext context_;
  Stage stage_ = Stage::kParsed;
  int num_run_ = 0;
  bool stopped_ = false;
  std::string printed_;
};

}  // namespace tpc
