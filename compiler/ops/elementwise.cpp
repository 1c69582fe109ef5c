#include "compiler/ops/elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::string operand_name(const OpQuery& query, size_t i) {
  if (query.operands.size() == 1) return "input";
  return fmt::format("input {} of {}", i + 1, query.operands.size());
}

}  // namespace

std::vector<TensorType> infer_broadcast(const OpQuery& query) {
  const TensorType& first = query.operands[0];
  for (size_t i = 0; i < query.operands.size(); ++i) {
    const Shape& shape = query.operands[i].shape;
    require_float(query.operands[i], operand_name(query, i));
    if (shape.size() > first.shape.size()) {
      throw OpTypeError(fmt::format("{} has more dimensions than the first: {} and {}; put the larger one first",
                                    operand_name(query, i), to_string(shape), to_string(first.shape)));
    }
    if (std::equal(shape.rbegin(), shape.rend(), first.shape.rbegin())) continue;
    if (shape.size() == first.shape.size()) {
      throw OpTypeError(fmt::format("shapes differ: {} and {}", to_string(first.shape), to_string(shape)));
    }
    Shape wanted(first.shape.end() - static_cast<std::ptrdiff_t>(shape.size()), first.shape.end());
    throw OpTypeError(fmt::format("{} {} does not match the last dimensions of {}: wanted {}", operand_name(query, i),
                                  to_string(shape), to_string(first.shape), to_string(wanted)));
  }
  for (size_t i = 1; i < query.operands.size(); ++i) {
    require_dtype(query.operands[i], first.dtype, operand_name(query, i));
  }
  return {first};
}

std::string dim_letters(size_t rank) {
  TPC_CHECK(rank <= kMaxRank, "a tensor of {} dimensions", rank);
  std::string letters;
  for (size_t i = 0; i < rank; ++i) letters += static_cast<char>('a' + i);
  return letters;
}

ShardingRule elementwise_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  std::string formula;
  for (size_t i = 0; i < query.operands.size(); ++i) {
    if (i > 0) formula += ",";
    formula += letters.substr(letters.size() - query.operands[i].shape.size());
  }
  for (size_t i = 0; i < query.results.size(); ++i) formula += (i == 0 ? "->" : ",") + letters;
  return ShardingRule::einsum(formula);
}

OpCost elementwise_cost(const OpQuery& query, double flops_per_element) {
  OpCost cost;
  for (const TensorType& operand : query.operands) cost.bytes_read += static_cast<double>(byte_size(operand));
  for (const TensorType& result : query.results) {
    cost.bytes_written += static_cast<double>(byte_size(result));
    cost.flops += flops_per_element * static_cast<double>(num_elements(result.shape));
  }
  return cost;
}

ValueId sum_to_operand(GradBuilder& builder, ValueId grad, size_t i) {
  size_t missing = builder.type(grad).shape.size() - builder.type(builder.operand(i)).shape.size();
  if (missing == 0) return grad;
  return builder.emit_one(OpKind::kReduceSum, {grad}, {{"dims", dims_from(0, missing)}});
}

}  // namespace tpc
