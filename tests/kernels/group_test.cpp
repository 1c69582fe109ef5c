// One launch does what many steps do.
#include <doctest/doctest.h>

#include <string>

#include "compiler/core/bfloat16.h"
#include "runtime/cuda/gpu.h"
#include "tests/kernels/emulated_run.h"
#include "tests/support/global_tensor.h"

namespace tpc::testing {
namespace {

constexpr double kTolerance = 1e-5;

// Around packs and chunks of 8192 elements, and a tensor of several chunks.
const std::vector<int64_t> kSizes = {1, 3, 4, 1000, 8191, 8192, 8193, 3 * 8192 + 6};

Part part(Shape shape, uint64_t seed, double low, double high) {
  const TensorType type{DType::kF32, std::move(shape)};
  GlobalTensor tensor = random_uniform_tensor(type, seed, "group", low, high);
  for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
  return {type, whole_region(type.shape), tensor.data};
}

Part result_like(const Part& operand) { return {operand.type, operand.region, {}}; }

/// w, g and as many states as there are results besides w.
RankStep optimizer_step(OpKind op, int64_t size, size_t num_results, bool clipped, Attributes attributes) {
  RankStep step{.op = op, .attributes = std::move(attributes), .operands = {}, .results = {}};
  for (size_t i = 0; i < num_results + 1; ++i) step.operands.push_back(part({size}, i, 0.1, 1));
  for (size_t i = 0; i < num_results; ++i) step.results.push_back(result_like(step.operands[0]));
  if (clipped) step.operands.push_back(part({}, 9, 0.5, 1));
  step.attributes.set("has_coefficient", clipped);
  return step;
}

class LaunchCount {
 public:
  LaunchCount() : before_(gpu::enqueue) {
    count_ = 0;
    gpu::enqueue = [](cudaStream_t, std::function<void()> work) {
      ++count_;
      work();
      return cudaSuccess;
    };
  }
  ~LaunchCount() { gpu::enqueue = before_; }
  LaunchCount(const LaunchCount&) = delete;
  LaunchCount& operator=(const LaunchCount&) = delete;

  int count() const { return count_; }

 private:
  static inline int count_ = 0;
  gpu::Enqueue before_;
};

void check_group(const std::vector<RankStep>& steps, const PrepareGroup& prepare, int launches) {
  for (Buffers buffers : {Buffers::kSeparate, Buffers::kInPlace}) {
    const LaunchCount count;
    const auto found = run_emulated_group(prepare, steps, buffers, {.seed = 1, .max_block_threads = 128});
    // Run twice unless in place.
    CHECK_EQ(count.count(), buffers == Buffers::kSeparate ? 2 * launches : launches);
    REQUIRE_EQ(found.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      CHECK_LT(difference(found[i], run_reference(steps[i])), kTolerance);
    }
  }
}

}  // namespace

TEST_CASE("parameters of many sizes take one step of AdamW together") {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    const double weight_decay = size % 2 == 0 ? 0.1 : 0.0;
    steps.push_back(
        optimizer_step(OpKind::kAdamW, size, 3, size > 3,
                       {{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}}));
  }
  check_group(steps, cuda::prepare_adamw_group, 1);
}

TEST_CASE("bias corrections are right in the first and in a late step") {
  for (uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{99}, uint64_t{123456}}) {
    CAPTURE(number);
    RankStep step =
        optimizer_step(OpKind::kAdamW, 37, 3, false,
                       {{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.9999}, {"eps", 1e-8}, {"weight_decay", 0.1}});
    step.context.step = number;
    check_group({step}, cuda::prepare_adamw_group, 1);
  }
}

TEST_CASE("parameters of many sizes take one step of SGD together, with momentum and without") {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    const double momentum = size % 2 == 0 ? 0.9 : 0.0;
    steps.push_back(optimizer_step(OpKind::kSgd, size, momentum != 0 ? 2 : 1, size > 3,
                                   {{"lr", 0.1}, {"momentum", momentum}, {"weight_decay", 0.1}}));
  }
  check_group(steps, cuda::prepare_sgd_group, 1);
}

TEST_CASE("squares of many tensors are summed together, each for itself") {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    RankStep step{.op = OpKind::kSumSquares, .attributes = {}, .operands = {part({size}, 1, -1, 1)}, .results = {}};
    step.results.push_back(result_like(part({}, 1, 0, 1)));
    steps.push_back(std::move(step));
  }
  // The sums of the chunks are added by a second one.
  check_group(steps, cuda::prepare_sum_squares_group, 2);
}

TEST_CASE("many parameters are updated together, of either float type") {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      RankStep step{.op = OpKind::kUpdate,
                    .attributes = {},
                    .operands = {part({size}, 1, -1, 1), part({size}, 2, -1, 1)},
                    .results = {}};
      for (Part& operand : step.operands) {
        operand.type.dtype = dtype;
        for (double& value : operand.data) value = static_cast<double>(BFloat16(static_cast<float>(value)));
      }
      steps.push_back(std::move(step));
    }
  }
  const LaunchCount count;
  const auto found =
      run_emulated_group(cuda::prepare_update_group, steps, Buffers::kInPlace, {.seed = 1, .max_block_threads = 128});
  CHECK_EQ(count.count(), 1);
  for (size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK_EQ(found[i][0], steps[i].operands[1].data);
    CHECK_EQ(found[i][1], steps[i].operands[1].data);
  }
}

}  // namespace tpc::testing
