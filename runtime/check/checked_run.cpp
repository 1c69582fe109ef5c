#include "runtime/check/checked_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/plan/text_table.h"
#include "runtime/arena.h"

namespace tpc {

std::string checked_run(const Plan& plan, const Plan& one_rank, DataSource& data, const MakeRun& make_run,
                        const CheckOptions& options) {
  ComparedPlans plans{plan, one_rank, match_tensors(plan, one_rank, options.file)};
  std::unique_ptr<ObservedRun> exact = make_run(one_rank), perturbed = make_run(one_rank), run = make_run(plan);
  ModelStep model(*exact, *perturbed);
  PlanComparison comparison(*run, model, plans.match);
  CheckSummary summary(plans, run->epsilon(DType::kF32));
  comparison.compare_start();
  for (uint64_t step = 0; step < options.num_steps; ++step) {
    auto tell = [&](std::string_view which, const Plan& told) -> StepObserver {
      return [&options, step, which, size = told.steps.size()](int64_t rank, int done) {
        if (rank == 0 && options.progress) options.progress(step, which, static_cast<size_t>(done) + 1, size);
      };
    };
    const Batch& batch = data.batch(step);
    model.run(step, batch, tell("the model", one_rank));
    comparison.run(step, batch, tell("the plan", plan));
    std::vector<CheckedTensor> results = comparison.results();
    if (!std::all_of(results.begin(), results.end(), [](const CheckedTensor& c) { return c.is_good(); })) {
      throw UserError(difference_report(plans, results, step, run->epsilon(DType::kF32), options.file));
    }
    summary.add_step(results);
  }
  return summary.text();
}

void require_check_memory(const Plan& plan, const Plan& one_rank, int64_t element) {
  double ranks = run_bytes(plan, element);
  auto world = static_cast<double>(plan.mesh.world_size());
  double model = ModelStep::bytes(one_rank, element);
  auto present = static_cast<double>(physical_memory());
  if (ranks * world + model <= present) return;
  throw DeviceError(fmt::format(
      "the check needs {} of memory: {} rank{} of {} each, and {} for the model on one rank and all its tensors; this "
      "machine has {}",
      bytes_text(ranks * world + model), plan.mesh.world_size(), plan.mesh.world_size() == 1 ? "" : "s",
      bytes_text(ranks), bytes_text(model), bytes_text(present)));
}

}  // namespace tpc
