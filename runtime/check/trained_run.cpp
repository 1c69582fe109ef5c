#include "runtime/check/trained_run.h"

#include <limits>

namespace tpc {
namespace {

TrainerOptions observed(TrainerOptions options) {
  options.is_observed = true;
  return options;
}

}  // namespace

TrainedRun::TrainedRun(Plan plan, Trainer::MakeDevice make_device, TrainerOptions options)
    : trainer_(std::move(plan), std::move(make_device), observed(std::move(options))) {}

TrainedRun::TrainedRun(Plan plan, Trainer::MakeBackend make_backend, TrainerOptions options)
    : trainer_(std::move(plan), std::move(make_backend), observed(std::move(options))) {}

RankPart TrainedRun::part(int64_t rank, int tensor) const {
  LocalTensor local = trainer_.local(rank, tensor);
  auto size = static_cast<size_t>(local.region.num_elements());
  if (local.type.dtype == DType::kF32) return {local.region, std::span(local.f32(), size)};
  if (local.type.dtype == DType::kBF16) return {local.region, std::span(local.bf16(), size)};
  return {local.region, std::span(local.i32(), size)};
}

double TrainedRun::epsilon(DType dtype) const {
  return dtype == DType::kBF16 ? kBFloat16Epsilon : static_cast<double>(std::numeric_limits<float>::epsilon());
}

void TrainedRun::run_step(const Batch& batch, const StepObserver& after) {
  trainer_.observe(after);
  trainer_.train_step(batch);
}

}  // namespace tpc
