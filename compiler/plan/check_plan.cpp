#include "compiler/plan/check_plan.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/plan/check_buffers.h"
#include "compiler/plan/check_proof.h"
#include "compiler/plan/check_steps.h"
#include "compiler/plan/plan_issues.h"
#include "compiler/plan/step_attributes.h"

namespace tpc {
namespace {

constexpr size_t kMaxRank = 16;
constexpr size_t kMaxAxes = 16;
constexpr int64_t kMaxWorld = int64_t{1} << 24;
constexpr int64_t kMaxElements = int64_t{1} << 50;

size_t position(int index) { return static_cast<size_t>(index); }

/// a * b, or a value beyond every limit here.
int64_t bounded_product(int64_t a, int64_t b) { return b > kMaxElements / a ? kMaxElements + 1 : a * b; }

void check_mesh(const Plan& plan, PlanIssues& issues) {
  int64_t world = 1;
  for (const MeshAxis& axis : plan.mesh.axes()) world = bounded_product(world, axis.size);
  if (world > kMaxWorld || plan.mesh.num_axes() > kMaxAxes) {
    issues.add("/mesh", fmt::format("a mesh has at most {} ranks on {} axes", kMaxWorld, kMaxAxes));
  }
  if (plan.arena_bytes < 0) issues.add("/arena_bytes", fmt::format("arena of {} bytes", plan.arena_bytes));
  if (plan.persistent_bytes < 0 || plan.persistent_bytes > plan.arena_bytes) {
    issues.add("/persistent_bytes",
               fmt::format("the persistent part has {} bytes, the arena {}", plan.persistent_bytes, plan.arena_bytes));
  }
}

/// Whether the tensor is one; its buffer can be judged only then.
bool check_type(const Plan& plan, int index, PlanIssues& issues) {
  const PlanTensor& tensor = plan.tensors[position(index)];
  const Shape& shape = tensor.type.shape;
  int64_t elements = 1;
  for (int64_t size : shape) elements = size < 1 ? kMaxElements + 1 : bounded_product(elements, size);
  if (shape.size() > kMaxRank || elements > kMaxElements) {
    issues.tensor(index, "/shape",
                  fmt::format("shape {} of \"{}\": wanted at most {} sizes, each at least 1", to_string(shape),
                              tensor.name, kMaxRank));
    return false;
  }
  if (std::optional<std::string> why = why_illegal(shape, tensor.sharding, plan.mesh)) {
    issues.tensor(index, "/sharding", fmt::format("\"{}\" {}: {}", tensor.name, to_string(shape), *why));
    return false;
  }
  TensorSharding form = canonical(shape, tensor.sharding, plan.mesh);
  if (form != tensor.sharding) {
    issues.tensor(index, "/sharding",
                  fmt::format("{} of \"{}\" is written {} here: its units change nothing", to_string(tensor.sharding),
                              tensor.name, to_string(form)));
  }
  return true;
}

void check_buffer(const Plan& plan, int index, PlanIssues& issues) {
  const PlanTensor& tensor = plan.tensors[position(index)];
  if (tensor.offset < 0 || tensor.offset % kBufferAlignment != 0) {
    issues.tensor(
        index, "/offset",
        fmt::format("offset {} of \"{}\" is not a multiple of {}", tensor.offset, tensor.name, kBufferAlignment));
  }
  Shape fullest = fullest_shape(tensor.type.shape, tensor.sharding, plan.mesh);
  int64_t needed = byte_size(TensorType{tensor.type.dtype, fullest});
  if (tensor.bytes < needed) {
    issues.tensor(index, "/bytes",
                  fmt::format("\"{}\" has {} bytes; the fullest rank holds {}{}, {} bytes", tensor.name, tensor.bytes,
                              to_string(tensor.type.dtype), to_string(fullest), needed));
    return;
  }
  int64_t limit = persists(tensor.role) ? plan.persistent_bytes : plan.arena_bytes;
  if (tensor.bytes > limit || tensor.offset > limit - tensor.bytes) {
    issues.tensor(index, "/offset",
                  fmt::format("\"{}\" ({} bytes at {}) lies outside the {} ({} bytes)", tensor.name, tensor.bytes,
                              tensor.offset, persists(tensor.role) ? "persistent part of the arena" : "arena", limit));
  }
}

std::optional<OpKind> leaf_op(TensorRole role) {
  if (role == TensorRole::kInput) return OpKind::kInput;
  if (role == TensorRole::kParameter) return OpKind::kParameter;
  if (role == TensorRole::kState) return OpKind::kState;
  return std::nullopt;
}

/// Inputs, parameters and states carry the attributes of the node that declared them: how they start.
void check_leaf(const PlanTensor& tensor, int index, OpKind op, PlanIssues& issues) {
  std::optional<AttributeMistake> mistake = attribute_mistake(op, tensor.attributes);
  if (!mistake && op == OpKind::kParameter) mistake = initializer_mistake(tensor.attributes);
  if (mistake) {
    issues.tensor(index, mistake->name.empty() ? "" : "/attributes/" + mistake->name, mistake->message);
    return;
  }
  try {
    TensorType declared = op_def(op).infer_types({tensor.attributes, {}, {}})[0];
    if (declared == tensor.type) return;
    issues.tensor(index, "/attributes",
                  fmt::format("\"{}\" is {}, its attributes declare {}", tensor.name, to_string(tensor.type),
                              to_string(declared)));
  } catch (const OpTypeError& error) {
    issues.tensor(index, "/attributes", fmt::format("\"{}\": {}", tensor.name, error.what()));
  }
}

void check_tensors(const Plan& plan, PlanIssues& issues) {
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    int index = static_cast<int>(i);
    const PlanTensor& tensor = plan.tensors[i];
    if (check_type(plan, index, issues)) check_buffer(plan, index, issues);
    if (persists(tensor.role) && tensor.sharding.has_partial()) {
      issues.tensor(index, "/sharding",
                    fmt::format("{} \"{}\" cannot start as a partial sum", to_string(tensor.role), tensor.name));
    }
    if (std::optional<OpKind> leaf = leaf_op(tensor.role)) check_leaf(tensor, index, *leaf, issues);
  }
}

void check_indices(const Plan& plan, PlanIssues& issues) {
  auto in_range = [&](int tensor) { return tensor >= 0 && position(tensor) < plan.tensors.size(); };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const std::vector<int>* list : {&plan.steps[i].operands, &plan.steps[i].results}) {
      for (int tensor : *list) {
        if (!in_range(tensor)) issues.step(static_cast<int>(i), "", fmt::format("no tensor {}", tensor));
      }
    }
  }
  for (const auto& [name, tensor] : plan.outputs) {
    if (!in_range(tensor)) issues.add("/outputs/" + name, fmt::format("no tensor {}", tensor));
  }
}

void check_update(const Plan& plan, int index, std::vector<int>& updated_by, PlanIssues& issues) {
  const PlanStep& step = plan.steps[position(index)];
  const PlanTensor& target = plan.tensors[position(step.operands[0])];
  if (target.role != TensorRole::kParameter && target.role != TensorRole::kState) {
    issues.step(
        index, "/operands/0",
        fmt::format("an update replaces a parameter or a state, \"{}\" is {}", target.name, to_string(target.role)));
  }
  int& earlier = updated_by[position(step.operands[0])];
  if (earlier >= 0) {
    issues.step(index, "/operands/0",
                fmt::format("\"{}\" is updated a second time; step {} did", target.name, earlier));
  }
  earlier = index;
}

/// Written once, before it is read; parameters and states by updates only, and not read after those.
void check_order(const Plan& plan, PlanIssues& issues) {
  std::vector<int> made_by(plan.tensors.size(), -1);
  std::vector<int> updated_by(plan.tensors.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    int index = static_cast<int>(i);
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const PlanTensor& tensor = plan.tensors[position(step.operands[k])];
      std::string place = fmt::format("/operands/{}", k);
      if (!persists(tensor.role) && made_by[position(step.operands[k])] < 0) {
        issues.step(index, place,
                    fmt::format("{} reads \"{}\", which no earlier step makes", op_name(step.op), tensor.name));
      }
      int update = updated_by[position(step.operands[k])];
      if (update >= 0 && step.op != OpKind::kUpdate) {
        issues.step(index, place,
                    fmt::format("{} reads \"{}\" after step {} has updated it", op_name(step.op), tensor.name, update));
      }
    }
    if (step.op == OpKind::kUpdate) check_update(plan, index, updated_by, issues);
    for (size_t k = 0; k < step.results.size(); ++k) {
      const PlanTensor& tensor = plan.tensors[position(step.results[k])];
      std::string place = fmt::format("/results/{}", k);
      int& maker = made_by[position(step.results[k])];
      if (persists(tensor.role)) {
        issues.step(index, place,
                    fmt::format("{} \"{}\" is written by an update only", to_string(tensor.role), tensor.name));
      } else if (maker >= 0) {
        issues.step(index, place, fmt::format("\"{}\" is made a second time; step {} did", tensor.name, maker));
      }
      maker = index;
    }
  }
  if (plan.outputs.count("loss") == 0) issues.add("/outputs", "no output is named \"loss\"");
  for (const auto& [name, tensor] : plan.outputs) {
    const PlanTensor& output = plan.tensors[position(tensor)];
    bool is_scalar = output.type == TensorType{DType::kF32, {}} && output.sharding.is_replicated();
    if (!is_scalar) {
      issues.add("/outputs/" + name, fmt::format("an output is a replicated f32 scalar, \"{}\" is {} @ {}", output.name,
                                                 to_string(output.type), to_string(output.sharding)));
    }
    if (made_by[position(tensor)] < 0) issues.add("/outputs/" + name, fmt::format("no step makes \"{}\"", output.name));
  }
}

}  // namespace

void check_plan(const Plan& plan, const std::string& file) {
  PlanIssues issues(file);
  check_mesh(plan, issues);
  check_indices(plan, issues);
  issues.throw_if_any();
  check_tensors(plan, issues);
  check_step_forms(plan, issues);
  issues.throw_if_any();
  check_step_rules(plan, issues);
  check_order(plan, issues);
  issues.throw_if_any();
  check_buffers(plan, issues);
  check_proof(plan, issues);
  issues.throw_if_any();
}

}  // namespace tpc
