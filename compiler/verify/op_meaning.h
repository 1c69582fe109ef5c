/// What the verifier knows of an op: which dimensions of its operands and results are the same, and in which operands
/// it is linear. A table of its own, written from the ops' formulas (docs/ops.md) and not from the rules that the
/// compiler splits by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc::verify {

/// Per operand and result one letter a dimension. Equal letters are one index of the formula:
///   a rank computes its range of it, so every tensor that has the letter must be there with the same range;
///   a letter that a result lacks is summed over, so a rank's result is its range's part of the sum.
struct OpMeaning {
  std::vector<std::string> operands;
  std::vector<std::string> results;
  /// Letters that a rank must hold whole: the formula mixes their elements.
  std::string whole;
  /// Sets of operands in which the results are linear jointly: parts of a sum pass through, when all of the set are.
  std::vector<std::vector<size_t>> linear;
  /// Results are the maximum over letters that they lack, not the sum.
  bool is_maximum = false;
  /// Letter `heads` counts query heads, of which `group` share one head of letter `kv`.
  struct Groups {
    char heads = 0;
    char kv = 0;
    int64_t group = 1;
  };
  std::optional<Groups> groups;
  /// Dimensions change, the order of the elements does not: ranges are compared as runs of elements.
  bool is_reshape = false;
  /// Per result the operand on whose bytes it may be written: the kernel reads what it replaces before it does.
  std::vector<size_t> over = {};
  /// Results that are sums: with attribute "sums" they are made in f32, without it rounded to the operands' type.
  std::vector<size_t> sums = {};
};

/// False for moves and updates, outputs and leaves, which are no formulas.
bool has_meaning(OpKind op);

/// Absent where the op has none. Arity, attributes and shapes must be ones that the op can have.
std::optional<OpMeaning> op_meaning(const Plan& plan, const PlanStep& step);

}  // namespace tpc::verify
