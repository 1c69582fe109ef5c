// Tensors one after the other along a dimension, or stacked along a new one.
#include <fmt/format.h>

#include <numeric>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

bool is_stack(const Attributes& attributes) { return attributes.get_bool("stack"); }
size_t dim_of(const Attributes& attributes) { return static_cast<size_t>(attributes.get_int("dim")); }

Shape without_dim(Shape shape, size_t dim) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
  return shape;
}

TensorType infer_stack(const OpQuery& query) {
  TensorType type = query.operands[0];
  size_t dim = require_dim(query.attributes.get_int("dim"), type.shape.size() + 1, "the stacked tensor");
  for (const TensorType& operand : query.operands) {
    if (operand.shape == type.shape) continue;
    throw OpTypeError(
        fmt::format("shapes to stack differ: {} and {}", to_string(type.shape), to_string(operand.shape)));
  }
  type.shape.insert(type.shape.begin() + static_cast<std::ptrdiff_t>(dim), static_cast<int64_t>(query.operands.size()));
  require_sizes(type.shape, "the stacked tensor");
  return type;
}

TensorType infer_concat(const OpQuery& query) {
  TensorType type = query.operands[0];
  size_t dim = require_dim(query.attributes.get_int("dim"), type.shape.size(), to_string(type.shape));
  for (const TensorType& operand : query.operands.subspan(1)) {
    bool agrees =
        operand.shape.size() == type.shape.size() && without_dim(operand.shape, dim) == without_dim(type.shape, dim);
    if (!agrees) {
      throw OpTypeError(fmt::format("shapes to concatenate along dimension {} differ elsewhere: {} and {}", dim,
                                    to_string(query.operands[0].shape), to_string(operand.shape)));
    }
    type.shape[dim] += operand.shape[dim];
  }
  return type;
}

std::vector<TensorType> infer_types(const OpQuery& query) {
  for (const TensorType& operand : query.operands) {
    require_dtype(operand, query.operands[0].dtype, "every input of one concatenation");
  }
  return {is_stack(query.attributes) ? infer_stack(query) : infer_concat(query)};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid()) return;
  bool stack = is_stack(builder.attributes());
  size_t dim = dim_of(builder.attributes());
  int64_t start = 0;
  for (size_t i = 0; i < builder.num_operands(); ++i) {
    int64_t length = stack ? 1 : builder.type(builder.operand(i)).shape[dim];
    if (builder.needs_grad(i)) {
      builder.set_grad(
          i,
          builder.emit_one(
              OpKind::kSlice, {dy},
              {{"dim", builder.attributes().get_int("dim")}, {"start", start}, {"length", length}, {"drop", stack}}));
    }
    start += length;
  }
}

ShardingRule sharding_rule(const OpQuery& query) {
  std::string whole = dim_letters(query.results[0].shape.size());
  std::string joined(1, whole[dim_of(query.attributes)]);
  std::string operand = whole;
  if (is_stack(query.attributes)) operand.erase(dim_of(query.attributes), 1);
  std::string formula = operand;
  for (size_t i = 1; i < query.operands.size(); ++i) formula += "," + operand;
  ShardingRule rule = ShardingRule::einsum(formula + "->" + whole, joined);
  std::vector<int> all(query.operands.size());
  std::iota(all.begin(), all.end(), 0);
  rule.linear_jointly(std::move(all));
  return rule;
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& y = args.results[0];
  size_t dim = dim_of(args.attributes);
  int64_t start = 0;
  for (const ReferenceTensor& x : args.operands) {
    // The operand's place in the result: its own index 0 of `dim` is index `start` there.
    Region part = x.region;
    if (is_stack(args.attributes)) part.dims.insert(part.dims.begin() + static_cast<std::ptrdiff_t>(dim), {0, 1});
    Region held = shifted(part, dim, start);
    start += is_stack(args.attributes) ? 1 : x.type.shape[dim];
    std::array<IndexMap, 2> maps = {trailing_map(held, held), trailing_map(y.region, held)};
    for_each_offset(held, maps, [&](auto at) { y.data[at[1]] = x.data[at[0]]; });
  }
}

}  // namespace

const OpDef kConcatOp = {
    .kind = OpKind::kConcat,
    .name = "concat",
    .summary = "y = x0, x1, ... along dimension dim; with stack, along a new dimension",
    .min_operands = 1,
    .max_operands = kAnyNumber,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = reference,
};

}  // namespace tpc
