#include "tests/faults/disturbed_backend.h"

#include "runtime/cpu/cpu_backend.h"
#include "runtime/host_backend.h"

namespace tpc::testing {
namespace {

class DisturbedKernel final : public Kernel {
 public:
  DisturbedKernel(std::unique_ptr<Kernel> kernel, std::function<void()> before)
      : kernel_(std::move(kernel)), before_(std::move(before)) {}

  void run(const StepContext& context) override {
    if (before_) before_();
    kernel_->run(context);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::function<void()> before_;
};

class DisturbedBackend final : public HostBackend {
 public:
  DisturbedBackend(std::function<void()> before_prepare, std::function<void()> before_run)
      : before_prepare_(std::move(before_prepare)), before_run_(std::move(before_run)) {}

  std::string_view name() const override { return "disturbed"; }

 protected:
  std::unique_ptr<Kernel> prepare_step(const LocalStep& step) override {
    if (before_prepare_) before_prepare_();
    return std::make_unique<DisturbedKernel>(cpu_->prepare(step), before_run_);
  }

 private:
  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  std::function<void()> before_prepare_;
  std::function<void()> before_run_;
};

}  // namespace

std::unique_ptr<Backend> disturbed_backend(std::function<void()> before_prepare, std::function<void()> before_run) {
  return std::make_unique<DisturbedBackend>(std::move(before_prepare), std::move(before_run));
}

}  // namespace tpc::testing
