// Where values go: named outputs of a step, and the next value of parameters and states.
#include <fmt/format.h>

#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_output(const OpQuery& query) {
  if (query.attributes.get_string("name").empty()) throw OpTypeError("an output needs a name");
  return {};
}

ShardingRule output_rule(const OpQuery&) { return {}; }

std::vector<TensorType> infer_update(const OpQuery& query) {
  if (query.operands[0] == query.operands[1]) return {};
  throw OpTypeError(
      fmt::format("the new value must be {}, found {}", to_string(query.operands[0]), to_string(query.operands[1])));
}

ShardingRule update_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[0].shape.size());
  ShardingRule rule = ShardingRule::einsum(letters + "," + letters + "->" + letters);
  for (Factor& factor : rule.factors) factor.results.clear();
  return rule;
}

OpCost no_cost(const OpQuery&) { return {}; }

OpCost update_cost(const OpQuery& query) {
  auto bytes = static_cast<double>(byte_size(query.operands[1]));
  return {.flops = 0, .bytes_read = bytes, .bytes_written = bytes};
}

}  // namespace

const OpDef kOutputOp = {
    .kind = OpKind::kOutput,
    .name = "output",
    .summary = "x is a result of the step, named",
    .min_operands = 1,
    .max_operands = 1,
    .num_results = 0,
    .infer_types = infer_output,
    .sharding_rule = output_rule,
    .cost = no_cost,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

const OpDef kUpdateOp = {
    .kind = OpKind::kUpdate,
    .name = "update",
    .summary = "target (a parameter or state) is new from the next step on",
    .min_operands = 2,
    .max_operands = 2,
    .num_results = 0,
    .infer_types = infer_update,
    .sharding_rule = update_rule,
    .cost = update_cost,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
