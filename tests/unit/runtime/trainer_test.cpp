#include "runtime/trainer.h"

#include <doctest/doctest.h>

#include <limits>
#include <thread>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "runtime/data.h"
#include "tests/unit/runtime/reference_backend.h"
#include "tests/unit/runtime/small_plans.h"

namespace tpc {
namespace {

using testing::ReferenceBackend;
using testing::two_layer_plan;

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

Batch some_batch(const Plan& plan) { return fixed_data(plan, /*seed=*/5)->batch(0); }

// A backend whose kernel for `op` does something else on rank `rank` of the world.
class DisturbedBackend final : public ReferenceBackend {
 public:
  DisturbedBackend(OpKind op, bool is_disturbed, std::function<void()> action)
      : op_(op), is_disturbed_(is_disturbed), action_(std::move(action)) {}

  std::unique_ptr<Kernel> prepare_step(const LocalStep& step) override {
    std::unique_ptr<Kernel> kernel = ReferenceBackend::prepare_step(step);
    if (step.op != op_ || !is_disturbed_) return kernel;
    struct Disturbed final : Kernel {
      Disturbed(std::unique_ptr<Kernel> k, std::function<void()> a) : kernel(std::move(k)), action(std::move(a)) {}
      void run(const StepContext& context) override {
        action();
        kernel->run(context);
      }
      std::unique_ptr<Kernel> kernel;
      std::function<void()> action;
    };
    return std::make_unique<Disturbed>(std::move(kernel), action_);
  }

 private:
  OpKind op_;
  bool is_disturbed_;
  std::function<void()> action_;
};

// The first backend that is asked for is disturbed, whichever rank that is.
Trainer::MakeBackend disturb_one(OpKind op, std::function<void()> action) {
  auto count = std::make_shared<std::atomic<int>>(0);
  return [=] { return std::make_unique<DisturbedBackend>(op, (*count)++ == 0, action); };
}

template <class Error>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("any number of ranks trains like one") {
  Plan single = two_layer_plan(1);
  Batch batch = some_batch(single);
  Trainer reference(single, make_reference_backend, {.seed = 7});
  std::vector<float> losses;
  HostTensor w1_before = reference.get_tensor("w1");
  for (int i = 0; i < 10; ++i) losses.push_back(reference.train_step(batch).loss);
  CHECK(losses.back() < losses.front());

  for (int64_t ranks : {2, 3, 4, 5}) {
    CAPTURE(ranks);
    Trainer trainer(two_layer_plan(ranks), make_reference_backend, {.seed = 7});
    CHECK(trainer.get_tensor("w1").f32 == w1_before.f32);
    trainer.keep("partial_y");
    trainer.keep("grad.w1");
    for (int i = 0; i < 10; ++i) {
      CHECK(trainer.train_step(batch).loss == doctest::Approx(losses[static_cast<size_t>(i)]).epsilon(1e-5));
    }
    CHECK(trainer.step() == 10);
    HostTensor w1 = trainer.get_tensor("w1"), wanted = reference.get_tensor("w1");
    for (size_t i = 0; i < w1.size(); ++i) CHECK(w1.f32[i] == doctest::Approx(wanted.f32[i]).epsilon(1e-5));
    CHECK(w1.f32 != w1_before.f32);

    // A kept Partial tensor comes back as its sum; the loss is the sum of its squares.
    double sum = 0;
    for (float v : trainer.get_tensor("partial_y").f32) sum += double{v} * double{v};
    CHECK(sum == doctest::Approx(losses.back()).epsilon(1e-5));
    CHECK(trainer.get_tensor("grad.w1").f32.size() == 30);
    CHECK_THROWS_AS(trainer.get_tensor("grad.h"), InternalError);
    CHECK_THROWS_AS(trainer.get_tensor("no such"), InternalError);

    trainer.check_traffic();
    CHECK(trainer.counted() == trainer.predicted());
    int64_t whole = 4 * 7 * 4;  // an all_reduce moves 2 (n - 1) tensors among all ranks
    CHECK(trainer.counted() == Traffic{{{OpKind::kAllReduce, Phase::kForward}, 10 * 2 * (ranks - 1) * whole}});
  }
}

TEST_CASE("a whole tensor that is set comes back") {
  Trainer trainer(two_layer_plan(3), make_reference_backend);
  for (const char* name : {"x", "w1", "w2"}) {
    HostTensor value = trainer.get_tensor(name);
    for (size_t i = 0; i < value.size(); ++i) value.f32[i] = static_cast<float>(i) + 0.5F;
    trainer.set_tensor(name, value);
    CHECK(trainer.get_tensor(name).f32 == value.f32);
  }
  CHECK_THROWS_AS(trainer.set_tensor("w1", HostTensor::of({DType::kF32, {5, 6}})), InternalError);
}

TEST_CASE("a loss that is not finite names step, node and rank, and leaves the weights") {
  Plan plan = two_layer_plan(2);
  Trainer trainer(plan, make_reference_backend);
  Batch batch = some_batch(plan);
  trainer.train_step(batch);
  HostTensor w1 = trainer.get_tensor("w1");
  // Columns 3 and 4 of w1 lie on rank 1.
  w1.f32[4] = 3e38F;
  trainer.set_tensor("w1", w1);
  batch.at("x").f32[0] = 1e5F;
  std::string message = message_of<UserError>([&] { trainer.train_step(batch); });
  CAPTURE(message);
  CHECK(holds(message, "loss of training step 1 is not finite"));
  CHECK(holds(message, "\"layer0\" (contract), tensor \"h\", on rank 1"));
  CHECK(trainer.get_tensor("w1").f32 == w1.f32);
}

TEST_CASE("a weight that was not finite before the step is named") {
  Plan plan = two_layer_plan(2);
  Trainer trainer(plan, make_reference_backend);
  HostTensor w2 = trainer.get_tensor("w2");
  w2.f32.back() = std::numeric_limits<float>::quiet_NaN();
  trainer.set_tensor("w2", w2);
  Batch batch = some_batch(plan);
  std::string message = message_of<UserError>([&] { trainer.train_step(batch); });
  CHECK(holds(message, "\"w2\" was not finite before the step, on rank 1"));
}

TEST_CASE("a rank that throws ends the run with rank, step and node") {
  Plan plan = two_layer_plan(3);
  Trainer trainer(plan, disturb_one(OpKind::kSumSquares, [] { throw DeviceError("the device is gone"); }));
  Batch batch = some_batch(plan);
  std::string message = message_of<DeviceError>([&] { trainer.train_step(batch); });
  CAPTURE(message);
  CHECK(holds(message, "rank "));
  CHECK(holds(message, "training step 0, \"layer3\" (sum_squares): the device is gone"));
  // The run is over.
  CHECK(message_of<DeviceError>([&] { trainer.train_step(batch); }) == message);
}

TEST_CASE("a rank that stalls ends the run, named") {
  Plan plan = two_layer_plan(2);
  Trainer trainer(plan,
                  disturb_one(OpKind::kContract, [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }),
                  {.timeout = std::chrono::milliseconds(50)});
  Batch batch = some_batch(plan);
  std::string message = message_of<DeviceError>([&] { trainer.train_step(batch); });
  CAPTURE(message);
  CHECK(holds(message, "waited 0.05 s at all_reduce of \"y\" (plan step 2); missing: rank "));
}

TEST_CASE("a plan that needs more memory than there is, is refused before any is taken") {
  Plan plan = two_layer_plan(2);
  plan.arena_bytes = int64_t{1} << 50;
  std::string message = message_of<DeviceError>([&] { Trainer trainer(plan, make_reference_backend); });
  CHECK(holds(message, "2 ranks of 1048576.0 GiB each need 2097152.0 GiB of memory"));
}

}  // namespace
}  // namespace tpc
