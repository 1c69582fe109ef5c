// Every CUDA kernel computes what its op's reference does: as f32 and bf16, whole and on uneven shards, in place, with
// threads in any order. A kernel is found by its line in kernel_list.def.
#include <doctest/doctest.h>

#include <string>

#include "runtime/cuda/kernel_table.h"
#include "tests/kernels/emulated_run.h"
#include "tests/kernels/kernel_samples.h"

namespace tpc::testing {
namespace {

/// Rounding of sums of some thousand floats that may cancel, against sums in double.
constexpr double kF32Tolerance = 3e-5;
/// Half a unit of the last of bf16's eight binary digits, and what f32 arithmetic may tip over.
constexpr double kBF16Tolerance = 0x1p-8;

/// An emulated thread costs the thread sanitizer a thousand times what it costs without.
const bool kIsThreadSanitized = std::string(TPC_SANITIZE).find("thread") != std::string::npos;

std::vector<Emulation> emulations() {
  if (kIsThreadSanitized) return {{.seed = 1, .max_block_threads = 64}};
  return {{.seed = 0, .max_block_threads = 1024},
          {.seed = 1, .max_block_threads = 64},
          {.seed = 2, .max_block_threads = 256},
          {.seed = 3, .max_block_threads = 32}};
}

void check_step(const Prepare& prepare, const RankStep& step, const Emulation& emulation) {
  const std::vector<std::vector<double>> expected = run_reference(step);
  const std::vector<std::vector<double>> found = run_emulated(prepare, step, Buffers::kSeparate, emulation);
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool is_bf16 = step.results[i].type.dtype == DType::kBF16;
    const double largest = difference({found[i]}, {expected[i]});
    CHECK_MESSAGE(largest <= (is_bf16 ? kBF16Tolerance : kF32Tolerance), "result ", i, " differs by ", largest);
  }
  // Bits depend neither on the order of threads nor on where the results lie.
  const Emulation another_order{emulation.seed + 10, emulation.max_block_threads};
  const Buffers buffers = op_def(step.op).inplace.empty() ? Buffers::kSeparate : Buffers::kInPlace;
  if (!kIsThreadSanitized || buffers == Buffers::kInPlace) {
    CHECK_EQ(found, run_emulated(prepare, step, buffers, another_order));
  }
}

double flops_of(const RankStep& step) {
  const auto local_types = [](const std::vector<Part>& parts) {
    std::vector<TensorType> types;
    for (const Part& part : parts) types.push_back({part.type.dtype, part.region.extents()});
    return types;
  };
  const std::vector<TensorType> operands = local_types(step.operands);
  const std::vector<TensorType> results = local_types(step.results);
  return op_def(step.op).cost({step.attributes, operands, results}).flops;
}

/// Of a large case's shares only some are run, the first among them: emulation takes some 20 ns for an operation.
int64_t stride_of_shares(const RankStep& share) {
  constexpr double kCheapFlops = 2e5;
  if (kIsThreadSanitized) return 4;
  return 1 + static_cast<int64_t>(flops_of(share) / kCheapFlops);
}

void check_kernel(OpKind op, const Prepare& prepare) {
  const std::vector<Emulation> all_emulations = emulations();
  size_t index = 0;
  int64_t share = 0;
  const size_t count = for_each_sample(op, kIsThreadSanitized, [&](const RankStep& step) {
    if (share++ % stride_of_shares(step) != 0) return;
    const Emulation& emulation = all_emulations[index++ % all_emulations.size()];
    INFO("seed ", emulation.seed, ", blocks of at most ", emulation.max_block_threads, " threads");
    try {
      check_step(prepare, step, emulation);
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
  });
  CHECK_EQ(count > 0, op_def(op).reference != nullptr);
}

}  // namespace

#define KERNEL(enumerator, stem) \
  TEST_CASE("emulated: " #stem) { check_kernel(OpKind::k##enumerator, cuda::prepare_##stem); }
#define GROUP_KERNEL(enumerator, stem)                                                        \
  TEST_CASE("emulated: " #stem) {                                                             \
    check_kernel(OpKind::k##enumerator, [](const LocalStep& step, cuda::DeviceQueue& queue) { \
      return cuda::prepare_##stem##_group({&step, 1}, queue);                                 \
    });                                                                                       \
  }
#include "runtime/cuda/kernel_list.def"
#undef GROUP_KERNEL
#undef KERNEL

}  // namespace tpc::testing
