/// Can a split that a layer would make be carried on for free?
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "passes/strategies/axis_state.h"

namespace tpc {

/// Follows a sharded dimension forward through the uses of a value. The split is *absorbed* when every path ends in an
/// op whose result no longer has the dimension (the contraction of a row-parallel layer, the sums of a loss), passing
/// only ops that allow it on the way.
class Lookahead {
 public:
  /// `fixed(node)`: the strategy that a node (an attention) takes whatever its operands; nullopt for all others.
  using FixedStrategy = std::function<std::optional<Strategy>(size_t node)>;
  Lookahead(const AxisState& state, FixedStrategy fixed);

  /// The unit (in elements of `dim`) in which the split must be made so that all ops on its way accept it; nullopt when
  /// it is not absorbed.
  std::optional<int64_t> absorbed(ValueId value, int64_t dim);

  const std::vector<Use>& uses_of(ValueId value) const { return uses_[value.position()]; }

 private:
  std::optional<int64_t> through(size_t node, size_t operand, int64_t dim);

  const AxisState& state_;
  FixedStrategy fixed_;
  std::vector<std::vector<Use>> uses_;
  std::map<std::pair<ValueId, int64_t>, std::optional<int64_t>> known_;
};

}  // namespace tpc
