#include "compiler/lowering/kernel_work.h"

#include <algorithm>
#include <functional>

#include "compiler/lowering/region_copy.h"
#include "compiler/lowering/sum_stages.h"

namespace tpc {
namespace {

bool is_empty(const LocalTensor& tensor) { return tensor.region.num_elements() == 0; }

KernelWork whole_copy(const LocalStep& step) {
  bool is_there = step.operands[0].data == step.results[0].data;
  return {.copied_bytes = is_there ? 0 : step.results[0].num_bytes()};
}

int shared_launches(const LocalStep& step) {
  return intersection(step.operands[0].region, step.results[0].region).num_elements() > 0 ? 1 : 0;
}

/// A stage that is cut is summed twice.
int sum_launches(const LocalStep& step) {
  std::vector<SumStage> stages = sum_stages(step.operands[0].region.extents(), step.attributes.get_ints("dims"));
  if (stages.empty()) return is_empty(step.results[0]) ? 0 : 1;
  int launches = 0;
  for (const SumStage& stage : stages) launches += stage.num_parts() > 1 ? 2 : 1;
  return launches;
}

}  // namespace

KernelWork kernel_work(std::span<const LocalStep> steps) {
  const LocalStep& first = steps[0];
  switch (first.op) {
    case OpKind::kAttentionGrad:
      return {.launches = 3};
    case OpKind::kConcat:
      return {.launches = static_cast<int>(std::ranges::count_if(first.operands, std::not_fn(is_empty)))};
    case OpKind::kLayerNormGrad:
    case OpKind::kRmsNormGrad:
    case OpKind::kSumSquares:
      return {.launches = 2};
    case OpKind::kLocalSlice:
      return {.launches = shared_launches(first)};
    case OpKind::kMask:
      if (first.is_first_in_group) return whole_copy(first);
      return {.filled_bytes = first.results[0].num_bytes()};
    case OpKind::kPad:
      return {.filled_bytes = first.results[0].num_bytes(), .launches = is_empty(first.operands[0]) ? 0 : 1};
    case OpKind::kReduceSum:
      return {.launches = sum_launches(first)};
    case OpKind::kReshape:
      return whole_copy(first);
    case OpKind::kZeroPad:
      return {.filled_bytes = first.results[0].num_bytes(), .launches = shared_launches(first)};
    default:
      return {.launches = 1};
  }
}

}  // namespace tpc
