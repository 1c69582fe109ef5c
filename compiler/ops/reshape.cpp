// Splits and merges dimensions; the elements keep their row-major order.
#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  const Shape& shape = query.attributes.get_ints("shape");
  require_sizes(shape, "the reshaped tensor");
  if (num_elements(x.shape) != num_elements(shape)) {
    throw OpTypeError(fmt::format("cannot reshape {} ({} elements) to {} ({} elements)", to_string(x.shape),
                                  num_elements(x.shape), to_string(shape), num_elements(shape)));
  }
  return {TensorType{x.dtype, shape}};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kReshape, {dy}, {{"shape", builder.type(builder.operand(0)).shape}}));
}

// Dimensions [begin, end) of one side.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

std::optional<size_t> outermost_split(const Shape& shape, Span span) {
  for (size_t dim = span.begin; dim < span.end; ++dim) {
    if (shape[dim] != 1) return dim;
  }
  return std::nullopt;
}

// The factor of a group of dimensions of x that holds the same elements as a group of y: their outermost dimensions, in
// as many units as both can count. [heads, d] -> [heads * d] gives heads: units of 1 on the left, of d on the right.
std::optional<Factor> group_factor(const Shape& x, Span in_x, const Shape& y, Span in_y) {
  std::optional<size_t> x_dim = outermost_split(x, in_x);
  std::optional<size_t> y_dim = outermost_split(y, in_y);
  if (!x_dim || !y_dim) return std::nullopt;
  int64_t parts = std::gcd(x[*x_dim], y[*y_dim]);
  if (parts == 1) return std::nullopt;
  Factor factor;
  factor.operands = {Factor::Use{static_cast<int64_t>(*x_dim), x[*x_dim] / parts}};
  factor.results = {Factor::Use{static_cast<int64_t>(*y_dim), y[*y_dim] / parts}};
  return factor;
}

ShardingRule sharding_rule(const OpQuery& query) {
  const Shape& x = query.operands[0].shape;
  const Shape& y = query.results[0].shape;
  ShardingRule rule;
  Span in_x;
  Span in_y;
  while (in_x.begin < x.size() && in_y.begin < y.size()) {
    // The shortest runs of dimensions with equal products.
    int64_t x_elements = x[in_x.end++];
    int64_t y_elements = y[in_y.end++];
    while (x_elements != y_elements) {
      if (x_elements < y_elements) {
        x_elements *= x[in_x.end++];
      } else {
        y_elements *= y[in_y.end++];
      }
    }
    if (std::optional<Factor> factor = group_factor(x, in_x, y, in_y)) {
      factor->name = dim_letters(rule.factors.size() + 1).back();
      rule.factors.push_back(std::move(*factor));
    }
    in_x.begin = in_x.end;
    in_y.begin = in_y.end;
  }
  rule.linear_jointly({0});
  return rule;
}

// A rank's part of a group is a range of its elements on both sides, so even the local elements keep their order; but
// the reference trusts global indices only.
void reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  std::array<IndexMap, 2> maps = {trailing_map(y.region, y.region), trailing_map(whole_region(y.type.shape), y.region)};
  for_each_offset(y.region, maps,
                  [&](auto at) { y.data[at[0]] = x.data[local_offset(x.region, unravel(at[1], x.type.shape))]; });
}

}  // namespace

const OpDef kReshapeOp = {
    .kind = OpKind::kReshape,
    .name = "reshape",
    .summary = "y = the elements of x in order, with another shape",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = reference,
    .inplace = {0},
};

}  // namespace tpc
