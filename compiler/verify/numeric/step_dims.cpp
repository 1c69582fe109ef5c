#include "compiler/verify/numeric/step_dims.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "compiler/verify/flaw.h"
#include "compiler/verify/op_meaning.h"

namespace tpc::verify {
namespace {

/// Of a slice or pad: the tensor with all of dimension `dim`, and the one with a part, which may lack it.
struct RangeStep {
  int whole = 0;
  int part = 0;
  size_t dim = 0;
  int64_t start = 0;
  bool part_has_dim = true;
};

RangeStep range_step(const Plan& plan, const PlanStep& step) {
  bool is_slice = step.op == OpKind::kSlice;
  RangeStep range;
  range.whole = is_slice ? step.operands[0] : step.results[0];
  range.part = is_slice ? step.results[0] : step.operands[0];
  range.dim = static_cast<size_t>(step.attributes.get_int("dim"));
  range.start = step.attributes.get_int("start");
  range.part_has_dim = plan.tensors[static_cast<size_t>(range.part)].type.shape.size() ==
                       plan.tensors[static_cast<size_t>(range.whole)].type.shape.size();
  return range;
}

/// The largest unit of which the whole, the part and its start are multiples.
int64_t unit_of(const Plan& plan, const RangeStep& range) {
  const Shape& whole = plan.tensors[static_cast<size_t>(range.whole)].type.shape;
  const Shape& part = plan.tensors[static_cast<size_t>(range.part)].type.shape;
  int64_t length = range.part_has_dim ? part[range.dim] : 1;
  return std::gcd(std::gcd(whole[range.dim], length), range.start);
}

int64_t rotary_unit(const Plan& plan, const PlanStep& step) {
  const Shape& shape = plan.tensors[static_cast<size_t>(step.operands[0])].type.shape;
  return std::gcd(shape.back(), step.attributes.get_int("rotary_dim"));
}

}  // namespace

StepDims::StepDims(const Plan& plan, DimAtoms& atoms) : plan_(plan), atoms_(atoms) {
  for (const PlanTensor& tensor : plan.tensors) {
    int first = -1;
    for (int64_t size : tensor.type.shape) {
      int added = atoms.add(size);
      if (first < 0) first = added;
    }
    first_.push_back(first);
  }
}

void StepDims::tell() {
  for (size_t i = 0; i < plan_.steps.size(); ++i) tell_step(static_cast<int>(i));
  tell_placements();
}

void StepDims::unite(int step, int tensor_a, size_t dim_a, int tensor_b, size_t dim_b) {
  if (dim_a >= shape(tensor_a).size() || dim_b >= shape(tensor_b).size() ||
      shape(tensor_a)[dim_a] != shape(tensor_b)[dim_b]) {
    throw_flaw(step, "dimension {} of \"{}\" {} and dimension {} of \"{}\" {} are one", dim_a, tensor(tensor_a).name,
               to_string(tensor(tensor_a).type), dim_b, tensor(tensor_b).name, to_string(tensor(tensor_b).type));
  }
  atoms_.unite(dim(tensor_a, dim_a), dim(tensor_b, dim_b));
}

void StepDims::unite_all(int step, int tensor_a, int tensor_b) {
  for (size_t d = 0; d < std::max(shape(tensor_a).size(), shape(tensor_b).size()); ++d)
    unite(step, tensor_a, d, tensor_b, d);
}

void StepDims::tell_step(int index) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
  check_sizes(index);
  if (step.op == OpKind::kOutput || is_leaf(step.op)) return;
  if (step.op == OpKind::kUpdate) return unite_all(index, step.operands[0], step.operands[1]);
  if (is_move(step.op)) return unite_all(index, step.operands[0], step.results[0]);
  if (step.op == OpKind::kReshape) return tell_reshape(index);
  if (step.op == OpKind::kSlice || step.op == OpKind::kPad) return tell_range(index);
  if (step.op == OpKind::kConcat) return tell_concat(index);
  tell_formula(index);
  if (step.op == OpKind::kRope) {
    int head_dim = dim(step.operands[0], shape(step.operands[0]).size() - 1);
    int64_t unit = rotary_unit(plan_, step);
    atoms_.keep_above(head_dim, unit);
    atoms_.keep_multiple(head_dim, unit, 2);
  }
}

/// Attributes that carry sizes are those of the result.
void StepDims::check_sizes(int index) const {
  const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
  auto check = [&](const char* name, const Attribute& wanted) {
    const Attribute& found = step.attributes.items().find(name)->second;
    if (found != wanted) throw_flaw(index, "has {} = {} and makes {}", name, to_string(found), to_string(wanted));
  };
  switch (step.op) {
    case OpKind::kBroadcastTo:
    case OpKind::kFill:
    case OpKind::kReshape:
      return check("shape", shape(step.results[0]));
    case OpKind::kEmbeddingGrad:
      return check("rows", shape(step.results[0])[0]);
    case OpKind::kPad:
      check("insert", !range_step(plan_, step).part_has_dim);
      return check("size", shape(step.results[0])[range_step(plan_, step).dim]);
    case OpKind::kSlice: {
      RangeStep range = range_step(plan_, step);
      check("drop", !range.part_has_dim);
      return check("length", range.part_has_dim ? shape(range.part)[range.dim] : 1);
    }
    default:
      return;
  }
}

void StepDims::tell_formula(int index) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
  std::optional<OpMeaning> meaning = op_meaning(plan_, step);
  if (!meaning) return;
  std::map<char, std::pair<int, size_t>> first;
  auto gather = [&](const std::vector<int>& tensors, const std::vector<std::string>& terms) {
    for (size_t i = 0; i < tensors.size() && i < terms.size(); ++i) {
      if (terms[i].size() != shape(tensors[i]).size())
        throw_flaw(index, "\"{}\" has {} dimensions, which the op cannot have", tensor(tensors[i]).name,
                   shape(tensors[i]).size());
      for (size_t d = 0; d < terms[i].size(); ++d) {
        auto [known, is_new] = first.try_emplace(terms[i][d], tensors[i], d);
        if (!is_new) unite(index, known->second.first, known->second.second, tensors[i], d);
      }
    }
  };
  gather(step.operands, meaning->operands);
  gather(step.results, meaning->results);
  if (!meaning->groups) return;
  auto [query, query_dim] = first.at(meaning->groups->heads);
  auto [key, key_dim] = first.at(meaning->groups->kv);
  int64_t group = meaning->groups->group;
  if (shape(query)[query_dim] != group * shape(key)[key_dim]) {
    throw_flaw(index, "has {} query heads in \"{}\" and {} key heads in \"{}\"", shape(query)[query_dim],
               tensor(query).name, shape(key)[key_dim], tensor(key).name);
  }
  // Query heads are key heads by their group.
  atoms_.relate({dim(query, query_dim)}, {dim(key, key_dim), atoms_.add(group)}, shape(query)[query_dim]);
}

/// The shortest runs of dimensions with as many elements on both sides.
void StepDims::tell_reshape(int index) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
  int in = step.operands[0];
  int out = step.results[0];
  if (num_elements(shape(in)) != num_elements(shape(out))) {
    throw_flaw(index, "\"{}\" {} has other elements than \"{}\" {}", tensor(in).name, to_string(tensor(in).type),
               tensor(out).name, to_string(tensor(out).type));
  }
  size_t f = 0;
  size_t t = 0;
  while (f < shape(in).size() && t < shape(out).size()) {
    std::vector<int> from{dim(in, f)};
    std::vector<int> to{dim(out, t)};
    int64_t in_elements = shape(in)[f++];
    int64_t out_elements = shape(out)[t++];
    while (in_elements != out_elements) {
      if (in_elements < out_elements) {
        from.push_back(dim(in, f));
        in_elements *= shape(in)[f++];
      } else {
        to.push_back(dim(out, t));
        out_elements *= shape(out)[t++];
      }
    }
    atoms_.relate(std::move(from), std::move(to), in_elements);
  }
}

/// Whole, part and start are counted in one unit, which shrinks; their counts stay.
void StepDims::tell_range(int index) {
  RangeStep range = range_step(plan_, plan_.steps[static_cast<size_t>(index)]);
  int64_t unit = unit_of(plan_, range);
  atoms_.keep_above(dim(range.whole, range.dim), unit);
  for (size_t d = 0; d < shape(range.whole).size(); ++d) {
    if (d != range.dim) unite(index, range.whole, d, range.part, d - (!range.part_has_dim && d > range.dim ? 1 : 0));
  }
  if (!range.part_has_dim) return;
  atoms_.keep_above(dim(range.part, range.dim), unit);
  atoms_.relate({dim(range.whole, range.dim)}, {dim(range.part, range.dim)}, unit);
}

void StepDims::tell_concat(int index) {
  const PlanStep& step = plan_.steps[static_cast<size_t>(index)];
  int whole = step.results[0];
  auto joined = static_cast<size_t>(step.attributes.get_int("dim"));
  bool is_stack = step.attributes.get_bool("stack");
  int64_t unit = is_stack ? 1 : shape(whole)[joined];
  for (int part : step.operands) unit = is_stack ? 1 : std::gcd(unit, shape(part)[joined]);
  atoms_.keep_above(dim(whole, joined), unit);
  for (int part : step.operands) {
    for (size_t d = 0; d < shape(whole).size(); ++d) {
      if (d != joined) unite(index, whole, d, part, d - (is_stack && d > joined ? 1 : 0));
    }
    if (is_stack) continue;
    atoms_.keep_above(dim(part, joined), unit);
    atoms_.relate({dim(whole, joined)}, {dim(part, joined)}, unit);
  }
}

void StepDims::tell_placements() {
  for (size_t t = 0; t < plan_.tensors.size(); ++t) {
    const PlanTensor& placed = plan_.tensors[t];
    for (size_t d = 0; d < placed.type.shape.size(); ++d) {
      int64_t parts = 1;
      for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
        if (placed.sharding.placements[axis].is_shard_of(static_cast<int64_t>(d))) parts *= plan_.mesh.axis_size(axis);
      }
      if (parts == 1) continue;
      for (const Placement& placement : placed.sharding.placements) {
        if (!placement.is_shard_of(static_cast<int64_t>(d))) continue;
        if (placement.unit < 1 || placed.type.shape[d] % placement.unit != 0)
          throw_flaw(-1, "dimension {} of \"{}\" has {} indices, which are not units of {}", d, placed.name,
                     placed.type.shape[d], placement.unit);
        atoms_.divide(dim(static_cast<int>(t), d), placement.unit, parts);
      }
    }
  }
}

Plan StepDims::shrunk() const {
  Plan tiny = plan_;
  for (size_t t = 0; t < plan_.tensors.size(); ++t) {
    PlanTensor& small = tiny.tensors[t];
    auto index = static_cast<int>(t);
    for (size_t d = 0; d < small.type.shape.size(); ++d) small.type.shape[d] = atoms_.shrunk(dim(index, d));
    for (Placement& placement : small.sharding.placements) {
      if (placement.is_shard())
        placement.unit = atoms_.shrunk(dim(index, static_cast<size_t>(placement.dim)), placement.unit);
    }
    if (small.attributes.has("shape")) small.attributes.set("shape", small.type.shape);
  }
  for (PlanStep& step : tiny.steps) {
    auto small = [&](int tensor) { return tiny.tensors[static_cast<size_t>(tensor)].type.shape; };
    switch (step.op) {
      case OpKind::kBroadcastTo:
      case OpKind::kFill:
      case OpKind::kReshape:
        step.attributes.set("shape", small(step.results[0]));
        break;
      case OpKind::kEmbeddingGrad:
        step.attributes.set("rows", small(step.results[0])[0]);
        break;
      case OpKind::kPad:
      case OpKind::kSlice: {
        RangeStep range = range_step(plan_, step);
        int64_t unit = unit_of(plan_, range);
        step.attributes.set("start", range.start / unit * atoms_.shrunk(dim(range.whole, range.dim), unit));
        if (step.op == OpKind::kPad) step.attributes.set("size", small(range.whole)[range.dim]);
        if (step.op == OpKind::kSlice)
          step.attributes.set("length", range.part_has_dim ? small(range.part)[range.dim] : 1);
        break;
      }
      case OpKind::kRope: {
        int64_t unit = rotary_unit(plan_, step);
        int head_dim = dim(step.operands[0], shape(step.operands[0]).size() - 1);
        step.attributes.set("rotary_dim", step.attributes.get_int("rotary_dim") / unit * atoms_.shrunk(head_dim, unit));
        break;
      }
      default:
        break;
    }
  }
  return tiny;
}

}  // namespace tpc::verify
