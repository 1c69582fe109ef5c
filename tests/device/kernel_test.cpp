// Every CUDA kernel computes on a GPU what its op's reference does: what is tried on the emulated kernels, launched.
#include <doctest/doctest.h>

#include <exception>

#include "runtime/cuda/kernel_table.h"
#include "tests/device/test_gpu.h"
#include "tests/kernels/group_samples.h"
#include "tests/kernels/kernel_run.h"
#include "tests/kernels/kernel_samples.h"

namespace tpc::testing {
namespace {

/// Sums of some hundred floats against sums in double, with the GPU's quick exp, tanh and reciprocal.
constexpr double kF32Tolerance = 5e-5;
/// Half a unit of the last of bf16's eight binary digits, and what f32 arithmetic may tip over.
constexpr double kBF16Tolerance = 0x1p-8;

double tolerance_of(const Part& result) { return result.type.dtype == DType::kBF16 ? kBF16Tolerance : kF32Tolerance; }

void check_results(const RankStep& step, const std::vector<std::vector<double>>& found) {
  const std::vector<std::vector<double>> expected = run_reference(step);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double largest = difference({found[i]}, {expected[i]});
    CHECK_MESSAGE(largest <= tolerance_of(step.results[i]), "result ", i, " differs by ", largest);
  }
}

void check_kernel(OpKind op, const Prepare& prepare) {
  if (!has_gpus()) return;
  const Buffers other_buffers = op_def(op).inplace.empty() ? Buffers::kSeparate : Buffers::kInPlace;
  for_each_sample(op, /*only_tiny=*/false, [&](const RankStep& step) {
    try {
      const std::vector<std::vector<double>> found = run_kernel(prepare, step, Buffers::kSeparate);
      check_results(step, found);
      // Bits depend neither on the order of threads nor on where the results lie.
      CHECK_EQ(found, run_kernel(prepare, step, other_buffers));
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
  });
}

void check_group(const std::vector<RankStep>& steps, const PrepareGroup& prepare) {
  if (!has_gpus()) return;
  for (Buffers buffers : {Buffers::kSeparate, Buffers::kInPlace}) {
    const auto found = run_kernel_group(prepare, steps, buffers);
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      check_results(steps[i], found[i]);
    }
  }
}

}  // namespace

#define KERNEL(enumerator, stem) \
  TEST_CASE("kernel: " #stem) { check_kernel(OpKind::k##enumerator, cuda::prepare_##stem); }
#define GROUP_KERNEL(enumerator, stem)                                                        \
  TEST_CASE("kernel: " #stem) {                                                               \
    check_kernel(OpKind::k##enumerator, [](const LocalStep& step, cuda::DeviceQueue& queue) { \
      return cuda::prepare_##stem##_group({&step, 1}, queue);                                 \
    });                                                                                       \
  }
#include "runtime/cuda/kernel_list.def"
#undef GROUP_KERNEL
#undef KERNEL

TEST_CASE("one launch of AdamW does many parameters") { check_group(adamw_group(), cuda::prepare_adamw_group); }

TEST_CASE("bias corrections of AdamW are right in the first and in a late step") {
  for (uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{99}, uint64_t{123456}}) {
    CAPTURE(number);
    check_group({adamw_in_step(number)}, cuda::prepare_adamw_group);
  }
}

TEST_CASE("one launch of SGD does many parameters") { check_group(sgd_group(), cuda::prepare_sgd_group); }

TEST_CASE("one launch sums the squares of many tensors") {
  check_group(sum_squares_group(), cuda::prepare_sum_squares_group);
}

TEST_CASE("one launch updates many tensors") {
  if (!has_gpus()) return;
  const std::vector<RankStep> steps = update_group();
  const auto found = run_kernel_group(cuda::prepare_update_group, steps, Buffers::kInPlace);
  for (size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK_EQ(found[i][0], steps[i].operands[1].data);
  }
}

}  // namespace tpc::testing
