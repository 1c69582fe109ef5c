#include "tests/kernels/group_samples.h"

#include <utility>

#include "compiler/core/bfloat16.h"
#include "tests/support/global_tensor.h"

namespace tpc::testing {
namespace {

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

}  // namespace

std::vector<RankStep> adamw_group() {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    const double weight_decay = size % 2 == 0 ? 0.1 : 0.0;
    steps.push_back(
        optimizer_step(OpKind::kAdamW, size, 3, size > 3,
                       {{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}}));
  }
  return steps;
}

RankStep adamw_in_step(uint64_t number) {
  RankStep step =
      optimizer_step(OpKind::kAdamW, 37, 3, false,
                     {{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.9999}, {"eps", 1e-8}, {"weight_decay", 0.1}});
  step.context.step = number;
  return step;
}

std::vector<RankStep> sgd_group() {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    const double momentum = size % 2 == 0 ? 0.9 : 0.0;
    steps.push_back(optimizer_step(OpKind::kSgd, size, momentum != 0 ? 2 : 1, size > 3,
                                   {{"lr", 0.1}, {"momentum", momentum}, {"weight_decay", 0.1}}));
  }
  return steps;
}

std::vector<RankStep> sum_squares_group() {
  std::vector<RankStep> steps;
  for (int64_t size : kSizes) {
    RankStep step{.op = OpKind::kSumSquares, .attributes = {}, .operands = {part({size}, 1, -1, 1)}, .results = {}};
    step.results.push_back(result_like(part({}, 1, 0, 1)));
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<RankStep> update_group() {
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
  return steps;
}

}  // namespace tpc::testing
