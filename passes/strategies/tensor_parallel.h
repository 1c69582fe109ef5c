/// The forward rules of strategy megatron on a tensor-parallel axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "passes/strategies/axis_state.h"
#include "passes/strategies/lookahead.h"

namespace tpc {

class TensorParallelRules {
 public:
  TensorParallelRules(const AxisState& state, DiagnosticSink& diagnostics, bool sequence_parallel,
                      const std::vector<int64_t>& sequence_dims);

  /// The strategy of a forward contraction, attention or embedding, whose operands lie as given (sums completed);
  /// nullopt for all other nodes, which follow their operands. What cannot be split is reported with what works.
  std::optional<Strategy> choose(size_t node, const std::vector<std::optional<Placement>>& operands);

 private:
  Strategy choose_linear(size_t node, const std::vector<std::optional<Placement>>& operands);
  std::optional<Strategy> column(size_t node);
  bool has_column_sibling(size_t node);
  std::optional<Strategy> attention(size_t node) const;
  Strategy choose_embedding(size_t node);
  bool is_stream(size_t node, const std::optional<Placement>& input) const;
  /// `value` would be split along `dim` in whole units.
  void report_too_small(size_t node, ValueId value, int64_t dim, int64_t unit);

  const AxisState& state_;
  DiagnosticSink& diagnostics_;
  bool sequence_parallel_;
  const std::vector<int64_t>& sequence_dims_;
  Lookahead lookahead_;
};

}  // namespace tpc
