#include "compiler/verify/numeric/tiny_plans.h"

#include <map>
#include <string>

#include "compiler/verify/flaw.h"
#include "compiler/verify/numeric/step_dims.h"

namespace tpc::verify {
namespace {

void link_leaves(const Plan& one_rank, const StepDims& of_model, const Plan& plan, const StepDims& of_plan,
                 DimAtoms& atoms) {
  std::map<std::string, int> leaves;
  for (size_t t = 0; t < one_rank.tensors.size(); ++t) {
    if (persists(one_rank.tensors[t].role)) leaves[one_rank.tensors[t].name] = static_cast<int>(t);
  }
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& leaf = plan.tensors[t];
    if (!persists(leaf.role)) continue;
    auto found = leaves.find(leaf.name);
    if (found == leaves.end()) throw_flaw(-1, "the model has no {} \"{}\"", to_string(leaf.role), leaf.name);
    const PlanTensor& model_leaf = one_rank.tensors[static_cast<size_t>(found->second)];
    if (model_leaf.type != leaf.type || model_leaf.role != leaf.role) {
      throw_flaw(-1, "\"{}\" is {} {}, the model's is {} {}", leaf.name, to_string(leaf.role), to_string(leaf.type),
                 to_string(model_leaf.role), to_string(model_leaf.type));
    }
    for (size_t d = 0; d < leaf.type.shape.size(); ++d)
      atoms.unite(of_model.dim(found->second, d), of_plan.dim(static_cast<int>(t), d));
    leaves.erase(found);
  }
  if (!leaves.empty()) throw_flaw(-1, "the model's \"{}\" is missing", leaves.begin()->first);
}

int64_t shrunk_elements(const Plan& plan, const StepDims& dims, const DimAtoms& atoms, int tensor) {
  int64_t elements = 1;
  for (size_t d = 0; d < plan.tensors[static_cast<size_t>(tensor)].type.shape.size(); ++d)
    elements *= atoms.shrunk(dims.dim(tensor, d));
  return elements;
}

/// Ids that name rows of a table are as many as its rows, where the model has so many, so that every row is met.
void grow_ids(const Plan& one_rank, const StepDims& dims, DimAtoms& atoms) {
  for (const PlanStep& step : one_rank.steps) {
    bool is_lookup = step.op == OpKind::kEmbedding;
    if (!is_lookup && step.op != OpKind::kSoftmaxStats) continue;
    int ids = step.operands[is_lookup ? 0 : 1];
    int table = step.operands[is_lookup ? 1 : 0];
    size_t num_ids = one_rank.tensors[static_cast<size_t>(ids)].type.shape.size();
    int rows = dims.dim(table, is_lookup ? 0 : num_ids);
    bool can_grow = true;
    while (can_grow && shrunk_elements(one_rank, dims, atoms, ids) < atoms.shrunk(rows)) {
      can_grow = false;
      for (size_t d = num_ids; d > 0 && !can_grow; --d) can_grow = atoms.grow(dims.dim(ids, d - 1));
    }
  }
}

double elements(const Plan& plan, int tensor) {
  const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
  double count = 1;
  for (int64_t size : fullest_shape(t.type.shape, t.sharding, plan.mesh)) count *= static_cast<double>(size);
  return count;
}

double contraction_work(const Plan& plan, const PlanStep& step) {
  const std::string& text = step.attributes.get_string("einsum");
  const std::string of_x = text.substr(0, text.find(','));
  const std::string of_y = text.substr(text.find("->") + 2);
  const PlanTensor& x = plan.tensors[static_cast<size_t>(step.operands[0])];
  Shape held = fullest_shape(x.type.shape, x.sharding, plan.mesh);
  double work = elements(plan, step.results[0]);
  for (size_t d = 0; d < held.size() && d < of_x.size(); ++d) {
    if (of_y.find(of_x[d]) == std::string::npos) work *= static_cast<double>(held[d]);
  }
  return work;
}

}  // namespace

TinyPlans tiny_plans(const Plan& one_rank, const Plan& plan) {
  DimAtoms atoms;
  StepDims of_model(one_rank, atoms);
  StepDims of_plan(plan, atoms);
  link_leaves(one_rank, of_model, plan, of_plan, atoms);
  of_model.tell();
  of_plan.tell();
  atoms.solve();
  grow_ids(one_rank, of_model, atoms);
  return {of_model.shrunk(), of_plan.shrunk()};
}

double numeric_work(const Plan& plan) {
  // A step costs something on every rank, and a division as much as this many multiplications.
  constexpr double kOfStep = 300;
  constexpr double kDivision = 120;
  double work = 0;
  for (const PlanStep& step : plan.steps) {
    work += kOfStep;
    for (int tensor : step.operands) work += elements(plan, tensor);
    for (int tensor : step.results) work += elements(plan, tensor);
    if (step.op == OpKind::kContract) work += contraction_work(plan, step);
    if (step.op == OpKind::kDivide) work += kDivision * elements(plan, step.results[0]);
    if (step.op == OpKind::kAttention || step.op == OpKind::kAttentionGrad) {
      size_t first = step.op == OpKind::kAttention ? 0 : 1;
      const Shape& keys = plan.tensors[static_cast<size_t>(step.operands[first + 1])].type.shape;
      work += 4 * elements(plan, step.operands[first]) * static_cast<double>(keys[1]);
    }
  }
  return work * static_cast<double>(plan.mesh.world_size());
}

}  // namespace tpc::verify
