#include "compiler/verify/plan_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "compiler/verify/op_meaning.h"
#include "compiler/verify/proved_classes.h"
#include "compiler/verify/step_ranges.h"

namespace tpc::verify {
namespace {

/// What is known of a tensor.
struct Known {
  int value = ValueNumbers::kUnknown;
  /// Along these axes each rank holds its own part of the sum (maximum) that is the value.
  AxisSet sums = 0;
  bool is_maximum = false;
};

/// "has scale = 0.35, the model's 0.25"; empty when there is none.
std::string first_difference(const Attributes& found, const Attributes& wanted) {
  for (const auto& [name, value] : wanted.items()) {
    auto own = found.items().find(name);
    if (own == found.items().end()) return fmt::format("lacks {} = {}", name, to_string(value));
    if (own->second != value)
      return fmt::format("has {} = {}, the model's {}", name, to_string(own->second), to_string(value));
  }
  for (const auto& [name, value] : found.items()) {
    if (!wanted.has(name)) return fmt::format("has {} = {}, the model has no {}", name, to_string(value), name);
  }
  return "";
}

class PlanProof {
 public:
  PlanProof(const ValueNumbers& model, const Plan& plan)
      : plan_(plan),
        numbers_(model),
        classes_(proved_classes(plan)),
        known_(plan.tensors.size()),
        ranges_(classes_.step_examples.size()) {}

  void run() {
    hold_leaves();
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      now_ = static_cast<int>(i);
      check_step(plan_.steps[i]);
    }
    now_ = -1;
    check_complete();
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_flaw(now_, format, std::forward<Args>(args)...);
  }

  const PlanTensor& tensor(int index) const { return plan_.tensors[static_cast<size_t>(index)]; }
  Known& known(int index) { return known_[static_cast<size_t>(index)]; }

  std::vector<int64_t> list_of(AxisSet axes) const {
    std::vector<int64_t> list;
    for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
      if ((axes & axis_bit(static_cast<int>(axis))) != 0) list.push_back(static_cast<int64_t>(axis));
    }
    return list;
  }

  std::string axes_text(AxisSet axes) const { return axes_name(plan_.mesh, list_of(axes)); }

  static TensorRole leaf_role(OpKind op) {
    return op == OpKind::kInput       ? TensorRole::kInput
           : op == OpKind::kParameter ? TensorRole::kParameter
                                      : TensorRole::kState;
  }

  void hold_leaves() {
    std::set<int> found;
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const PlanTensor& leaf = plan_.tensors[t];
      int index = static_cast<int>(t);
      if (!persists(leaf.role)) continue;
      int value = numbers_.leaf(leaf.name);
      if (value == ValueNumbers::kUnknown || leaf_role(numbers_.leaf_node(value).op) != leaf.role)
        throw_tensor_flaw(index, "the model has no {} \"{}\"", to_string(leaf.role), leaf.name);
      if (!found.insert(value).second) throw_tensor_flaw(index, "has \"{}\" twice", leaf.name);
      if (numbers_.type(value) != leaf.type) {
        throw_tensor_flaw(index, "\"{}\" is {}, the model's is {}", leaf.name, to_string(leaf.type),
                          to_string(numbers_.type(value)));
      }
      std::string difference = first_difference(leaf.attributes, numbers_.leaf_node(value).attributes);
      if (!difference.empty()) throw_tensor_flaw(index, "\"{}\" {}", leaf.name, difference);
      known_[t] = {value, 0, false};
      check_claim(static_cast<int>(t));
    }
  }

  /// Who reads a plan, or compares its run, goes by names: "x", and "x@..." for a conversion, must be the model's x.
  void check_name(int index) const {
    const std::string& name = tensor(index).name;
    int value = known_[static_cast<size_t>(index)].value;
    int named = numbers_.named(name.substr(0, name.find('@')));
    if (named != ValueNumbers::kUnknown && named != value)
      fail("names \"{}\" what is the model's \"{}\"", name, numbers_.name(value));
  }

  /// A plan's partial sums decide what its collectives are taken for: they must be those that there are.
  void check_claim(int index) const {
    const PlanTensor& made = tensor(index);
    const Known& is = known_[static_cast<size_t>(index)];
    for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
      const Placement& placement = made.sharding.placements[axis];
      bool is_part = (is.sums & axis_bit(static_cast<int>(axis))) != 0;
      const std::string& name = plan_.mesh.axes()[axis].name;
      if (placement.is_shard() && is_part)
        fail("\"{}\" is divided over {}, along which its ranks hold parts of a sum", made.name, name);
      bool is_same_kind = (placement.reduce == ReduceOp::kMax) == is.is_maximum;
      if (is_part && placement.is_partial() && !is_same_kind) {
        fail("along {} each rank holds the {} of its block of \"{}\", not {}", name, is.is_maximum ? "maximum" : "sum",
             made.name, to_string(placement));
      }
      if (placement.is_partial() == is_part) continue;
      if (is_part)
        fail("along {} each rank holds its own part of a sum that is \"{}\", not {}", name, made.name,
             to_string(placement));
      fail("along {} every rank holds all of \"{}\", and it is to be {}: it would count {} times", name, made.name,
           to_string(placement), plan_.mesh.axis_size(axis));
    }
  }

  void check_step(const PlanStep& step) {
    for (int operand : step.operands) {
      if (known(operand).value == ValueNumbers::kUnknown)
        fail("reads \"{}\", which no step before it made", tensor(operand).name);
    }
    if (step.op == OpKind::kUpdate) return check_update(step);
    if (step.op == OpKind::kOutput) return check_output(step);
    if (has_meaning(step.op)) return check_op(step);
    check_move(step);
  }

  void check_op(const PlanStep& step) {
    std::vector<int> values;
    for (int operand : step.operands) values.push_back(known(operand).value);
    int value = numbers_.result(step.op, step.attributes, values);
    bool rounds_sums = value == ValueNumbers::kUnknown;
    if (rounds_sums) value = unrounded_result(step, values);
    if (value == ValueNumbers::kUnknown) fail("{}", unknown_text(step, values));
    // Asked of the model's own steps only: of others attributes and shapes may be anything.
    const OpMeaning meaning = *op_meaning(plan_, step);
    StepRanges& ranges = of_class([&] { return op_ranges(plan_, step, meaning); });
    if (!ranges.flaw.empty()) fail("{}", ranges.flaw);
    Known passed = check_sums(step, meaning);
    for (size_t r = 0; r < step.results.size(); ++r) {
      int number = value + static_cast<int>(r);
      int result = step.results[r];
      bool is_rounded = rounds_sums && std::find(meaning.sums.begin(), meaning.sums.end(), r) != meaning.sums.end();
      check_rounding(result, passed.sums | ranges.summed[r], is_rounded);
      if (is_rounded) {
        number = rounded(number, tensor(result).type.dtype);
        // Nothing of the model is made of it.
        if (number == ValueNumbers::kUnknown) continue;
      }
      if (numbers_.type(number) != tensor(result).type) {
        fail("makes \"{}\" as {}, the model's is {}", tensor(result).name, to_string(tensor(result).type),
             to_string(numbers_.type(number)));
      }
      if ((passed.sums & ranges.summed[r]) != 0) {
        fail(
            "adds up over {}, along which its operand is a part of a sum already: each rank has the products of its "
            "own parts only",
            axes_text(passed.sums & ranges.summed[r]));
      }
      known(result) = {number, passed.sums | ranges.summed[r], meaning.is_maximum && ranges.summed[r] != 0};
      check_name(result);
      check_claim(result);
    }
  }

  /// The model makes a sum in f32 and casts it, the step does both: the value of the model's step that this one is but
  /// for the rounding.
  int unrounded_result(const PlanStep& step, const std::vector<int>& values) const {
    if (step.attributes.has("sums")) return ValueNumbers::kUnknown;
    Attributes unrounded = step.attributes;
    unrounded.set("sums", std::string(to_string(DType::kF32)));
    return numbers_.result(step.op, unrounded, values);
  }

  /// Rounded parts of a sum do not add up to the rounded sum; only a model whose sums across ranks are in the compute
  /// type may have them. Moves of whole values through partial sums round nothing.
  void check_rounding(int result, AxisSet parts, bool is_rounded) const {
    const Precision& precision = numbers_.precision();
    bool may_round = !is_rounded && precision.reduce == precision.compute;
    if (parts == 0 || may_round || tensor(result).type.dtype == DType::kF32) return;
    fail("rounds \"{}\" to {}, of which each rank of {} has its own part of a sum", tensor(result).name,
         to_string(tensor(result).type.dtype), axes_text(parts));
  }

  /// The model's cast of a value.
  int rounded(int value, DType to) const {
    return numbers_.result(OpKind::kCast, {{"to", std::string(to_string(to))}}, {value});
  }

  /// What of the operands' sums passes through an op. Axis by axis, for sums over two axes may meet in one product:
  /// (a0 + a1) * (b0 + b1) is the sum of what the ranks of both axes have.
  Known check_sums(const PlanStep& step, const OpMeaning& meaning) {
    AxisSet all = 0;
    for (int operand : step.operands) {
      const Known& is = known(operand);
      all |= is.sums;
      if (is.is_maximum) {
        fail("works on \"{}\", of which each rank of {} has the maximum of its block only", tensor(operand).name,
             axes_text(is.sums));
      }
    }
    for (size_t axis = 0; axis < plan_.mesh.num_axes(); ++axis) {
      AxisSet bit = axis_bit(static_cast<int>(axis));
      if ((all & bit) != 0) check_sums_along(bit, step, meaning);
    }
    return {ValueNumbers::kUnknown, all, false};
  }

  /// The operands that are parts of sums along an axis must be all of a set in which the op is linear.
  void check_sums_along(AxisSet axis, const PlanStep& step, const OpMeaning& meaning) {
    std::vector<size_t> parts;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      if ((known(step.operands[i]).sums & axis) != 0) parts.push_back(i);
    }
    auto name = [&](size_t i) { return tensor(step.operands[i]).name; };
    for (const std::vector<size_t>& linear : meaning.linear) {
      bool has_all = std::all_of(parts.begin(), parts.end(), [&](size_t part) {
        return std::find(linear.begin(), linear.end(), part) != linear.end();
      });
      if (!has_all) continue;
      for (size_t i : linear) {
        if ((known(step.operands[i]).sums & axis) != 0) continue;
        fail(
            "every rank of {} holds \"{}\" where each has its own part of \"{}\": in their sum it would count more "
            "than once",
            axes_text(axis), name(i), name(parts[0]));
      }
      return;
    }
    fail("is not linear in \"{}\", of which each rank of {} holds its own part of a sum", name(parts[0]),
         axes_text(axis));
  }

  void check_move(const PlanStep& step) {
    AxisSet axes = 0;
    for (int64_t axis : step.attributes.get_ints("axes")) axes |= axis_bit(static_cast<int>(axis));
    const Known& from = known(step.operands[0]);
    const std::string& name = tensor(step.operands[0]).name;
    Known to = from;
    switch (step.op) {
      case OpKind::kAllReduce:
      case OpKind::kReduceScatter: {
        AxisSet whole = axes & ~from.sums;
        bool is_maximum = step.attributes.get_string("op") == "max";
        if (whole != 0 && !(is_maximum && from.is_maximum)) {
          fail("reduces \"{}\" over {}, of which every rank holds the same: it would count {} times", name,
               axes_text(whole), plan_.mesh.group_size(list_of(whole)));
        }
        if (is_maximum != from.is_maximum) {
          fail("takes the {} of \"{}\", which is the {} of the ranks' parts", is_maximum ? "maximum" : "sum", name,
               from.is_maximum ? "maximum" : "sum");
        }
        to.sums &= ~axes;
        to.is_maximum = from.is_maximum && to.sums != 0;
        break;
      }
      case OpKind::kAllGather:
      case OpKind::kAllToAll:
      case OpKind::kLocalSlice:
        if ((axes & from.sums) != 0) {
          fail("moves \"{}\" over {}, along which each rank holds its own part of a sum", name,
               axes_text(axes & from.sums));
        }
        break;
      case OpKind::kMask:
      case OpKind::kZeroPad:
        if ((axes & from.sums) != 0) {
          fail("leaves \"{}\" to one rank of {}, along which each rank holds its own part of a sum", name,
               axes_text(axes & from.sums));
        }
        if (from.is_maximum) fail("puts zeros into \"{}\", of which the maximum is taken", name);
        to.sums |= axes;
        break;
      default:
        fail("is no step that a rank can take");
    }
    StepRanges& ranges = of_class([&] { return move_ranges(plan_, step, axes); });
    if (!ranges.flaw.empty()) fail("{}", ranges.flaw);
    if (tensor(step.results[0]).type != tensor(step.operands[0]).type) {
      fail("makes {} of {}", to_string(tensor(step.results[0]).type), to_string(tensor(step.operands[0]).type));
    }
    known(step.results[0]) = to;
    check_name(step.results[0]);
    check_claim(step.results[0]);
  }

  void check_update(const PlanStep& step) {
    const PlanTensor& target = tensor(step.operands[0]);
    const PlanTensor& made = tensor(step.operands[1]);
    auto wanted = numbers_.updates().find(known(step.operands[0]).value);
    if (!persists(target.role) || wanted == numbers_.updates().end())
      fail("the model does not update \"{}\"", target.name);
    const Known& is = known(step.operands[1]);
    if (is.value != wanted->second) {
      fail("\"{}\" becomes \"{}\", the model's becomes \"{}\"", target.name, numbers_.name(is.value),
           numbers_.name(wanted->second));
    }
    if (is.sums != 0)
      fail("\"{}\" becomes \"{}\", of which each rank of {} holds its own part of a sum", target.name, made.name,
           axes_text(is.sums));
    std::vector<DimCuts> rest = dim_cuts(target, plan_.mesh);
    std::vector<DimCuts> now = dim_cuts(made, plan_.mesh);
    std::vector<int64_t> coordinate(plan_.mesh.num_axes(), 0);
    for (size_t d = 0; d < rest.size(); ++d) {
      if (same_ranges(rest[d], now[d], 1, plan_.mesh, coordinate)) continue;
      Interval old_range = held(rest[d], coordinate);
      Interval new_range = held(now[d], coordinate);
      fail("rank {} keeps [{}, {}) of dimension {} of \"{}\" and has [{}, {}) of what it becomes",
           plan_.mesh.rank_at(coordinate), old_range.begin, old_range.end, d, target.name, new_range.begin,
           new_range.end);
    }
    if (!updated_.insert(known(step.operands[0]).value).second) fail("updates \"{}\" a second time", target.name);
  }

  /// Named outputs are looked at in the end.
  void check_output(const PlanStep& step) const {
    const std::string& name = step.attributes.get_string("name");
    auto found = plan_.outputs.find(name);
    if (found == plan_.outputs.end()) fail("the plan has no output \"{}\"", name);
    if (found->second != step.operands[0]) {
      fail("gives \"{}\" as output \"{}\", the plan names \"{}\"", tensor(step.operands[0]).name, name,
           tensor(found->second).name);
    }
  }

  void check_complete() {
    for (const auto& [leaf, value] : numbers_.updates()) {
      if (updated_.count(leaf) == 0)
        fail("\"{}\" is not updated; the model's becomes \"{}\"", numbers_.name(leaf), numbers_.name(value));
    }
    for (const auto& [name, value] : numbers_.outputs()) {
      auto found = plan_.outputs.find(name);
      if (found == plan_.outputs.end()) fail("output \"{}\" is missing", name);
      const Known& is = known(found->second);
      if (is.value != value) {
        fail("output \"{}\" is \"{}\", the model's is \"{}\"", name, is.value < 0 ? "nothing" : numbers_.name(is.value),
             numbers_.name(value));
      }
      if (is.sums != 0) fail("output \"{}\" is a part of a sum on each rank of {}", name, axes_text(is.sums));
    }
    for (const auto& [name, index] : plan_.outputs) {
      if (numbers_.outputs().count(name) == 0) fail("the model has no output \"{}\"", name);
    }
  }

  /// What the model computes in the step's place.
  std::string unknown_text(const PlanStep& step, const std::vector<int>& values) const {
    const Node* nearest = nullptr;
    size_t most = 0;
    std::vector<const Node*> nodes = numbers_.nodes_like(step.layer, step.op);
    for (const Node* node : nodes) {
      size_t same = 0;
      for (size_t i = 0; i < std::min(values.size(), node->operands.size()); ++i)
        same += numbers_.of(node->operands[i]) == values[i] ? 1 : 0;
      if (nearest == nullptr || same > most) {
        nearest = node;
        most = same;
      }
    }
    if (nearest == nullptr) return fmt::format("the model has no {} in \"{}\"", op_name(step.op), step.layer);
    if (values.size() != nearest->operands.size())
      return fmt::format("has {} operands, the model's has {}", values.size(), nearest->operands.size());
    for (size_t i = 0; i < values.size(); ++i) {
      int wanted = numbers_.of(nearest->operands[i]);
      if (values[i] != wanted) {
        const std::string& read = tensor(step.operands[i]).name;
        const std::string& value = numbers_.name(values[i]);
        std::string is = read == value ? "" : fmt::format(", the model's value \"{}\"", value);
        return fmt::format("operand {} is \"{}\"{}; the model's step has \"{}\"", i, read, is, numbers_.name(wanted));
      }
    }
    std::string difference = first_difference(step.attributes, nearest->attributes);
    return difference.empty() ? "is no step of the model" : difference;
  }

  /// Ranges of a class of steps are worked out once.
  template <class Make>
  StepRanges& of_class(Make&& make) {
    std::optional<StepRanges>& known = ranges_[static_cast<size_t>(classes_.steps[static_cast<size_t>(now_)])];
    if (!known) known = make();
    return *known;
  }

  const Plan& plan_;
  const ValueNumbers& numbers_;
  PlanClasses classes_;
  std::vector<Known> known_;                       ///< per tensor
  std::vector<std::optional<StepRanges>> ranges_;  ///< per class of steps
  std::set<int> updated_;
  int now_ = -1;
};

}  // namespace

std::optional<Flaw> find_step_flaw(const ValueNumbers& model, const Plan& plan) {
  try {
    PlanProof(model, plan).run();
  } catch (Flaw& flaw) {
    return std::move(flaw);
  }
  return std::nullopt;
}

}  // namespace tpc::verify
