#include "passes/one_rank_plan.h"

#include "passes/pipeline.h"

namespace tpc {

Plan one_rank_plan(Graph model, const OptimizerSettings& optimizer) {
  CompileOptions options;
  options.optimizer = optimizer;
  options.keeps_sums = true;
  DiagnosticSink ignored;
  return compile(std::move(model), options, ignored).plan;
}

}  // namespace tpc
