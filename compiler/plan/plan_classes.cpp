#include "compiler/plan/plan_classes.h"

#include <map>
#include <tuple>

namespace tpc {
namespace {

using AttributeItems = std::map<std::string, Attribute, std::less<>>;

std::vector<TensorType> local_types(const Plan& plan, const std::vector<int>& tensors,
                                    std::span<const int64_t> coordinate) {
  std::vector<TensorType> types = types_of(plan, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const PlanTensor& tensor = plan.tensors[static_cast<size_t>(tensors[i])];
    types[i].shape = local_region(tensor.type.shape, tensor.sharding, plan.mesh, coordinate).extents();
  }
  return types;
}

}  // namespace

PlanClasses classify(const Plan& plan) {
  PlanClasses classes;
  std::map<std::tuple<DType, Shape, TensorSharding>, int> tensor_class;
  classes.tensors.reserve(plan.tensors.size());
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlanTensor& tensor = plan.tensors[i];
    auto [found, is_new] = tensor_class.try_emplace({tensor.type.dtype, tensor.type.shape, tensor.sharding},
                                                    static_cast<int>(tensor_class.size()));
    if (is_new) classes.tensor_examples.push_back(static_cast<int>(i));
    classes.tensors.push_back(found->second);
  }
  // Operands, a mark, results: their classes.
  std::map<AttributeItems, int> attribute_class;
  std::map<std::vector<int>, int> step_class;
  std::vector<int> key;
  classes.steps.reserve(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    int attributes =
        attribute_class.try_emplace(step.attributes.items(), static_cast<int>(attribute_class.size())).first->second;
    key.assign({static_cast<int>(step.op), attributes});
    for (int tensor : step.operands) key.push_back(classes.tensors[static_cast<size_t>(tensor)]);
    key.push_back(-1);
    for (int tensor : step.results) key.push_back(classes.tensors[static_cast<size_t>(tensor)]);
    auto [found, is_new] = step_class.try_emplace(key, static_cast<int>(step_class.size()));
    if (is_new) classes.step_examples.push_back(static_cast<int>(i));
    classes.steps.push_back(found->second);
  }
  return classes;
}

std::vector<TensorType> types_of(const Plan& plan, const std::vector<int>& tensors) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (int tensor : tensors) types.push_back(plan.tensors[static_cast<size_t>(tensor)].type);
  return types;
}

std::vector<Shape> shapes_of(const Plan& plan, const std::vector<int>& tensors) {
  std::vector<Shape> shapes;
  shapes.reserve(tensors.size());
  for (int tensor : tensors) shapes.push_back(plan.tensors[static_cast<size_t>(tensor)].type.shape);
  return shapes;
}

std::vector<TensorSharding> shardings_of(const Plan& plan, const std::vector<int>& tensors) {
  std::vector<TensorSharding> shardings;
  shardings.reserve(tensors.size());
  for (int tensor : tensors) shardings.push_back(plan.tensors[static_cast<size_t>(tensor)].sharding);
  return shardings;
}

OpCost local_cost(const Plan& plan, const PlanStep& step, std::span<const int64_t> coordinate) {
  const OpDef& def = op_def(step.op);
  if (def.cost == nullptr) return {};
  std::vector<TensorType> operands = local_types(plan, step.operands, coordinate);
  std::vector<TensorType> results = local_types(plan, step.results, coordinate);
  return def.cost({step.attributes, operands, results});
}

}  // namespace tpc
