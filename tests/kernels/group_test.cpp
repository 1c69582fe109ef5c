// One launch does what many steps do.
#include <doctest/doctest.h>

#include <string>

#include "runtime/cuda/gpu.h"
#include "tests/kernels/emulated_run.h"
#include "tests/kernels/group_samples.h"

namespace tpc::testing {
namespace {

constexpr double kTolerance = 1e-5;

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
  check_group(adamw_group(), cuda::prepare_adamw_group, 1);
}

TEST_CASE("bias corrections are right in the first and in a late step") {
  for (uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{99}, uint64_t{123456}}) {
    CAPTURE(number);
    check_group({adamw_in_step(number)}, cuda::prepare_adamw_group, 1);
  }
}

TEST_CASE("parameters of many sizes take one step of SGD together, with momentum and without") {
  check_group(sgd_group(), cuda::prepare_sgd_group, 1);
}

TEST_CASE("squares of many tensors are summed together, each for itself") {
  // The sums of the chunks are added by a second one.
  check_group(sum_squares_group(), cuda::prepare_sum_squares_group, 2);
}

TEST_CASE("many parameters are updated together, of either float type") {
  const std::vector<RankStep> steps = update_group();
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
