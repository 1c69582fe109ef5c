/// What elementwise ops share: the broadcast rule, their sharding rule, cost, loops and the gradient of a broadcast.
/// Broadcasting: the first operand has the result's shape; the shape of any other equals its last dimensions
/// (a scalar [], [h] or [s, h] against [b, s, h]). Sizes of 1 are not stretched.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/ops/region_index.h"

namespace tpc {

/// Type of the first operand. Throws OpTypeError unless all operands are floats of one type and broadcast to it.
std::vector<TensorType> infer_broadcast(const OpQuery& query);

/// Factor letters of a tensor of `rank` dimensions: "abc" for 3. At most kMaxRank; never 'v' or 'z'.
std::string dim_letters(size_t rank);

/// One factor a dimension of the first operand, carried by every operand that has it and by every result, all of which
/// have the first operand's shape. No linear groups: the op adds them. Also right for one operand.
ShardingRule elementwise_rule(const OpQuery& query);

/// Reads every operand and writes every result once, with this many operations an element of the results (together).
OpCost elementwise_cost(const OpQuery& query, double flops_per_element);
/// elementwise_cost as a table entry.
template <int kFlopsPerElement>
OpCost elementwise_cost(const OpQuery& query) {
  return elementwise_cost(query, kFlopsPerElement);
}

/// Calls visit(offsets) for every element of the first result's region: offsets of the operands in order, then of the
/// results. Operands broadcast.
template <class Visit>
void for_each_element(const ReferenceArgs& args, Visit&& visit) {
  const Region& loop = args.results[0].region;
  std::vector<IndexMap> maps;
  for (const ReferenceTensor& operand : args.operands) maps.push_back(trailing_map(operand.region, loop));
  for (const ReferenceTensor& result : args.results) maps.push_back(trailing_map(result.region, loop));
  for_each_offset(loop, maps, visit);
}

/// result = function(operand 0) or function(operand 0, operand 1), elementwise.
template <class Function>
void map_elements(const ReferenceArgs& args, Function&& function) {
  const double* x = args.operands[0].data;
  double* y = args.results[0].data;
  if constexpr (std::is_invocable_v<Function, double>) {
    for_each_element(args, [&](auto at) { y[at[1]] = function(x[at[0]]); });
  } else {
    const double* w = args.operands[1].data;
    for_each_element(args, [&](auto at) { y[at[2]] = function(x[at[0]], w[at[1]]); });
  }
}

/// Gradient of a broadcast: sums `grad`, which has the result's shape, over the leading dimensions that operand i
/// lacks.
ValueId sum_to_operand(GradBuilder& builder, ValueId grad, size_t i);

}  // namespace tpc
