// Faults planted in the executor of a rank: the fake device's order, the comparison with the cpu, and NCCL's matching
// of calls find them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/threads/thread_communicator.h"
#include "tests/cuda/training_devices.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// A wait that the executor forgets.
class ForgottenMark final : public Mark {
 public:
  explicit ForgottenMark(std::unique_ptr<Mark> mark) : mark_(std::move(mark)) {}
  void set() override { mark_->set(); }
  void await() override {}

 private:
  std::unique_ptr<Mark> mark_;
};

/// A backend that forgets to wait for collectives, or for kernels.
class ForgetfulBackend final : public Backend {
 public:
  ForgetfulBackend(std::unique_ptr<Backend> backend, DeviceQueueKind forgotten)
      : backend_(std::move(backend)), forgotten_(forgotten) {}

  std::unique_ptr<Mark> make_mark(DeviceQueueKind queue) override {
    std::unique_ptr<Mark> mark = backend_->make_mark(queue);
    if (queue != forgotten_) return mark;
    return std::make_unique<ForgottenMark>(std::move(mark));
  }

  std::string_view name() const override { return backend_->name(); }
  std::unique_ptr<DeviceMemory> allocate(int64_t bytes, bool visible) override {
    return backend_->allocate(bytes, visible);
  }
  std::optional<MemoryUse> memory_use() const override { return backend_->memory_use(); }
  bool is_host() const override { return backend_->is_host(); }
  void upload(void* device, const void* host, int64_t bytes) override { backend_->upload(device, host, bytes); }
  void download(void* host, const void* device, int64_t bytes, DeviceQueueKind queue) override {
    backend_->download(host, device, bytes, queue);
  }
  void* host_buffer(int64_t bytes) override { return backend_->host_buffer(bytes); }
  size_t num_together(std::span<const LocalStep> steps) const override { return backend_->num_together(steps); }
  std::unique_ptr<Kernel> prepare_together(std::span<const LocalStep> steps) override {
    return backend_->prepare_together(steps);
  }
  void begin_step(const StepContext& context) override { backend_->begin_step(context); }
  void run(Segment& segment, bool is_observed) override { backend_->run(segment, is_observed); }
  void wait() override { backend_->wait(); }
  void enter() override { backend_->enter(); }
  void release_segments() override { backend_->release_segments(); }
  void quiesce() override { backend_->quiesce(); }
  int64_t planned_workspace(const RankUnits& units) const override { return backend_->planned_workspace(units); }

 private:
  std::unique_ptr<Backend> backend_;
  DeviceQueueKind forgotten_;
};

/// A collective that the rank does not come to.
class MissedCollective final : public Collective {
 public:
  int64_t run() override { return 0; }
};

class UnmatchedCommunicator final : public Communicator {
 public:
  /// `missed`: the number of the collective, from 0.
  UnmatchedCommunicator(std::unique_ptr<Communicator> communicator, int missed)
      : communicator_(std::move(communicator)), missed_(missed) {}

  std::unique_ptr<Collective> prepare(const CollectiveStep& step) override {
    std::unique_ptr<Collective> collective = communicator_->prepare(step);
    if (count_++ != missed_) return collective;
    return std::make_unique<MissedCollective>();
  }
  void use_memory(void* data, int64_t bytes) override { communicator_->use_memory(data, bytes); }
  void forget_memory() override { communicator_->forget_memory(); }
  void abort() override { communicator_->abort(); }

 private:
  std::unique_ptr<Communicator> communicator_;
  int missed_;
  int count_ = 0;
};

Plan small_plan(const std::string& mesh) {
  const std::map<std::string, int64_t> sizes = {{"batch", 2},    {"seq", 8},  {"hidden", 32}, {"heads", 4},
                                                {"head_dim", 8}, {"ffn", 64}, {"vocab", 40}};
  return compile_model("small_gpt", sizes, {mesh, *parse_mesh(mesh), false}).plan;
}

/// The losses of two steps, or the message that the run ends with.
std::string run_of(const Plan& plan, Trainer::MakeDevice devices) {
  try {
    Trainer trainer(plan, std::move(devices), {.threads_per_rank = 1});
    std::unique_ptr<DataSource> data = fixed_data(plan, 5);
    std::string losses;
    for (uint64_t step = 0; step < 2; ++step) {
      // Four decimals: the sums of the cpu are in another order.
      double loss = static_cast<double>(trainer.train_step(data->batch(step)).loss);
      losses += std::to_string(std::round(loss * 1e4) / 1e4) + " ";
    }
    trainer.wait();
    return losses;
  } catch (const std::exception& error) {
    return error.what();
  }
}

Trainer::MakeDevice on_cpu() {
  return [](int64_t rank, ThreadWorld& world) -> RankDevice {
    return {make_cpu_backend(), std::make_unique<ThreadCommunicator>(world, rank)};
  };
}

using Plant = std::function<void(int64_t rank, RankDevice& device)>;

Trainer::MakeDevice planted(int64_t world_size, const Plant& plant, int64_t timeout_ms = 20'000) {
  Trainer::MakeDevice devices = training_devices(
      world_size, [=](DeviceSettings& settings) { settings.timeout = std::chrono::milliseconds(timeout_ms); });
  return [devices, plant](int64_t rank, ThreadWorld& world) {
    RankDevice device = devices(rank, world);
    plant(rank, device);
    return device;
  };
}

/// Runs `test` on machines that order the work of their streams differently.
void with_seeds(int count, const std::function<void()>& test) {
  for (int seed = 1; seed <= count; ++seed) {
    CAPTURE(seed);
    setenv("FAKE_CUDA_SEED", std::to_string(seed).c_str(), /*overwrite=*/1);
    fake_cuda::reset();
    test();
  }
  unsetenv("FAKE_CUDA_SEED");
  fake_cuda::reset();
}

TEST_CASE("whatever the order of streams, the run is the cpu's") {
  Plan plan = small_plan("tp=2");
  std::string expected = run_of(plan, on_cpu());
  with_seeds(8, [&] { CHECK(run_of(plan, training_devices(2)) == expected); });
}

TEST_CASE("a missing wait is seen on every order of streams") {
  Plan plan = small_plan("tp=2");
  std::string expected = run_of(plan, on_cpu());
  for (DeviceQueueKind forgotten : {DeviceQueueKind::kCommunication, DeviceQueueKind::kCompute}) {
    CAPTURE(to_string(forgotten));
    with_seeds(8, [&] {
      CHECK(run_of(plan, planted(2, [=](int64_t, RankDevice& device) {
                     device.backend = std::make_unique<ForgetfulBackend>(std::move(device.backend), forgotten);
                   })) != expected);
    });
  }
}

TEST_CASE("a rank that misses a collective ends the run, and the collective is named") {
  Plan plan = small_plan("tp=2");
  for (int missed : {0, 3, 9}) {
    CAPTURE(missed);
    std::string message = run_of(plan, planted(
                                           2,
                                           [=](int64_t rank, RankDevice& device) {
                                             if (rank != 1) return;
                                             device.communicator = std::make_unique<UnmatchedCommunicator>(
                                                 std::move(device.communicator), missed);
                                           },
                                           1'500));
    CAPTURE(message);
    bool is_unmatched = message.find("different") != std::string::npos;
    bool is_late = message.find("has not ended after 1.5 s") != std::string::npos;
    bool is_named = is_unmatched || is_late;
    CHECK(is_named);
  }
  fake_cuda::reset();
}

}  // namespace
}  // namespace tpc::testing
