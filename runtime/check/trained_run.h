/// The run that is checked: kernels, communicator and memory are those of training.
#pragma once

#include "runtime/check/observed_run.h"
#include "runtime/trainer.h"

namespace tpc {

class TrainedRun final : public ObservedRun {
 public:
  TrainedRun(Plan plan, Trainer::MakeDevice make_device, TrainerOptions options);
  TrainedRun(Plan plan, Trainer::MakeBackend make_backend, TrainerOptions options);

  const Plan& plan() const override { return trainer_.plan(); }
  RankPart part(int64_t rank, int tensor) const override;
  double epsilon(DType dtype) const override;
  void run_step(const Batch& batch, const StepObserver& after) override;

 private:
  Trainer trainer_;
};

}  // namespace tpc
