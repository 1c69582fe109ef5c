// Every CUDA kernel computes what its op's reference does: as f32 and bf16, whole and on uneven shards, in place, with
// threads in any order. A kernel is found by its line in kernel_list.def.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "compiler/core/bfloat16.h"
#include "runtime/cuda/kernel_table.h"
#include "tests/kernels/emulated_run.h"
#include "tests/support/kernel_cases.h"
#include "tests/support/op_samples.h"

namespace tpc::testing {
namespace {

/// Rounding of sums of some thousand floats that may cancel, against sums in double.
constexpr double kF32Tolerance = 3e-5;
/// Half a unit of the last of bf16's eight binary digits, and what f32 arithmetic may tip over.
constexpr double kBF16Tolerance = 0x1p-8;

/// An emulated thread costs the thread sanitizer a thousand times what it costs without.
const bool kIsThreadSanitized = std::string(TPC_SANITIZE).find("thread") != std::string::npos;

void round_to_type(GlobalTensor& tensor) {
  for (double& value : tensor.data) {
    const float rounded = static_cast<float>(value);
    value = tensor.type.dtype == DType::kBF16 ? static_cast<double>(BFloat16(rounded)) : static_cast<double>(rounded);
  }
}

std::optional<KernelCase> with_full_leaves(KernelCase sample) {
  const FloatRoles& floats = op_def(sample.op).floats;
  bool any_data = false;
  bool any_leaf = false;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    GlobalTensor& operand = sample.operands[i];
    if (operand.type.dtype != DType::kBF16) continue;
    const bool is_leaf = floats.of_operand(i) == FloatRole::kAny;
    if (is_leaf) operand.type.dtype = DType::kF32;
    (is_leaf ? any_leaf : any_data) = true;
  }
  if (any_data && any_leaf) return sample;
  return std::nullopt;
}

std::vector<KernelCase> cases_of(OpKind op) {
  std::vector<KernelCase> cases;
  for (const OpSample& sample : op_samples()) {
    if (sample.op != op) continue;
    std::vector<GlobalTensor> operands = sample.values();
    for (GlobalTensor& operand : operands) round_to_type(operand);
    cases.push_back({op, std::move(operands), sample.attributes});
  }
  for (KernelCase& sample : kernel_cases()) {
    if (sample.op == op && !kIsThreadSanitized) cases.push_back(std::move(sample));
  }
  // Leaves may be f32 among data in bf16.
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    if (std::optional<KernelCase> mixed = with_full_leaves(cases[i])) cases.push_back(std::move(*mixed));
  }
  return cases;
}

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
  return 1 + static_cast<int64_t>(flops_of(share) / kCheapFlops);
}

void check_kernel(OpKind op, const Prepare& prepare) {
  const std::vector<Emulation> all_emulations = emulations();
  size_t count = 0;
  for (const KernelCase& sample : cases_of(op)) {
    int64_t index = 0;
    for_each_share(sample, [&](const RankStep& share) {
      if (index++ % stride_of_shares(share) != 0) return;
      const Emulation& emulation = all_emulations[count++ % all_emulations.size()];
      INFO("seed ", emulation.seed, ", blocks of at most ", emulation.max_block_threads, " threads");
      try {
        check_step(prepare, share, emulation);
      } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
      }
    });
  }
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
