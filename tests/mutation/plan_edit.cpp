#include "tests/mutation/plan_edit.h"

#include <algorithm>

namespace tpc::testing {

void read_instead(Plan& plan, int from, int to, size_t first) {
  for (size_t i = first; i < plan.steps.size(); ++i) {
    for (int& operand : plan.steps[i].operands) operand = operand == from ? to : operand;
  }
  for (auto& [name, tensor] : plan.outputs) tensor = tensor == from ? to : tensor;
}

int add_tensor(Plan& plan, int like, const TensorSharding& sharding) {
  PlanTensor added = plan.tensors[static_cast<size_t>(like)];
  added.name += "@extra";
  added.sharding = sharding;
  added.role = TensorRole::kOther;
  added.attributes = {};
  added.bytes = byte_size(added.type);
  added.offset = (plan.arena_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  plan.arena_bytes = added.offset + added.bytes;
  plan.tensors.push_back(std::move(added));
  return static_cast<int>(plan.tensors.size()) - 1;
}

void insert_step(Plan& plan, size_t at, PlanStep step) {
  plan.steps.insert(plan.steps.begin() + static_cast<std::ptrdiff_t>(at), std::move(step));
}

void remove_step(Plan& plan, size_t at) { plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(at)); }

std::vector<size_t> readers(const Plan& plan, int tensor) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const std::vector<int>& operands = plan.steps[i].operands;
    if (std::find(operands.begin(), operands.end(), tensor) != operands.end()) found.push_back(i);
  }
  return found;
}

}  // namespace tpc::testing
