#include "tests/support/run_check.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "compiler/frontend/model.h"
#include "passes/one_rank_plan.h"
#include "runtime/check/checked_run.h"
#include "runtime/check/double_run.h"
#include "runtime/check/trained_run.h"
#include "runtime/cpu/cpu_backend.h"

namespace tpc::testing {
namespace {

class TamperedRun final : public ObservedRun {
 public:
  TamperedRun(std::unique_ptr<ObservedRun> run, Tampering tampering)
      : run_(std::move(run)), tampering_(std::move(tampering)) {
    if (tampering_.step < 0) tamper();
  }

  const Plan& plan() const override { return run_->plan(); }
  RankPart part(int64_t rank, int tensor) const override { return run_->part(rank, tensor); }
  double epsilon(DType dtype) const override { return run_->epsilon(dtype); }
  void run_step(const Batch& batch, const StepObserver& after) override {
    run_->run_step(batch, [&](int64_t rank, int step) {
      if (rank == tampering_.rank && step == tampering_.step) tamper();
      after(rank, step);
    });
  }

 private:
  void tamper() { tampering_.change(run_->part(tampering_.rank, tampering_.tensor).elements); }

  std::unique_ptr<ObservedRun> run_;
  Tampering tampering_;
};

void flip_lowest_bit(BFloat16& value) { value.bits ^= 1U; }
void flip_lowest_bit(float& value) { value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1U); }
void flip_lowest_bit(double& value) { value = std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ 1U); }
void flip_lowest_bit(int32_t& value) { value ^= 1; }

}  // namespace

Plan model_plan(const Plan& plan) {
  DiagnosticSink sink;
  Model model = parse_model(plan.model_json, "plan.json", {}, sink);
  return one_rank_plan(std::move(model.graph), model.optimizer);
}

MakeRun trained(uint64_t seed) {
  TrainerOptions options;
  options.seed = seed;
  options.threads_per_rank = 1;
  return [=](const Plan& plan) { return std::make_unique<TrainedRun>(plan, make_cpu_backend, options); };
}

MakeRun in_double(uint64_t seed) {
  return [=](const Plan& plan) { return std::make_unique<DoubleRun>(plan, seed); };
}

MakeRun tampered(MakeRun make_run, Tampering tampering) {
  return [=](const Plan& plan) -> std::unique_ptr<ObservedRun> {
    if (plan.mesh.world_size() == 1) return make_run(plan);
    return std::make_unique<TamperedRun>(make_run(plan), tampering);
  };
}

void flip_last_bit(const Elements& elements) {
  std::visit([](auto values) { flip_lowest_bit(values.back()); }, elements);
}

Diagnostic check_run(const Plan& plan, const MakeRun& make_run, uint64_t steps, uint64_t seed) {
  const Plan one_rank = model_plan(plan);
  std::unique_ptr<DataSource> data = fixed_data(one_rank, seed);
  try {
    checked_run(plan, one_rank, *data, make_run, {steps, "plan.json", {}});
    return {};
  } catch (const UserError& error) {
    return error.diagnostics().at(0);
  }
}

bool has_note(const Diagnostic& report, const std::string& part) {
  return std::any_of(report.notes.begin(), report.notes.end(),
                     [&](const Note& note) { return note.message.find(part) != std::string::npos; });
}

}  // namespace tpc::testing
