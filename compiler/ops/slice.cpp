// A range of one dimension, and its transpose: zeros around.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

size_t dim_of(const Attributes& attributes) { return static_cast<size_t>(attributes.get_int("dim")); }

std::vector<TensorType> infer_slice(const OpQuery& query) {
  TensorType type = query.operands[0];
  size_t dim = require_dim(query.attributes.get_int("dim"), type.shape.size(), to_string(type.shape));
  int64_t start = query.attributes.get_int("start");
  int64_t length = query.attributes.get_int("length");
  if (start < 0 || length < 1 || length > type.shape[dim] || start > type.shape[dim] - length) {
    throw OpTypeError(fmt::format("{} indices from {} do not lie in dimension {} of {} (size {})", length, start, dim,
                                  to_string(type.shape), type.shape[dim]));
  }
  type.shape[dim] = length;
  if (query.attributes.get_bool("drop")) {
    if (length != 1) throw OpTypeError(fmt::format("only a slice of length 1 can be dropped, found {}", length));
    type.shape.erase(type.shape.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  return {type};
}

std::vector<TensorType> infer_pad(const OpQuery& query) {
  TensorType type = query.operands[0];
  bool insert = query.attributes.get_bool("insert");
  size_t dim = require_dim(query.attributes.get_int("dim"), type.shape.size() + (insert ? 1 : 0), "the padded tensor");
  if (insert) type.shape.insert(type.shape.begin() + static_cast<std::ptrdiff_t>(dim), 1);
  int64_t start = query.attributes.get_int("start");
  int64_t size = query.attributes.get_int("size");
  if (start < 0 || size < type.shape[dim] || start > size - type.shape[dim]) {
    throw OpTypeError(
        fmt::format("{} elements from {} do not lie in a dimension padded to {}", type.shape[dim], start, size));
  }
  type.shape[dim] = size;
  require_sizes(type.shape, "the padded tensor");
  return {type};
}

void slice_gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  const Attributes& slice = builder.attributes();
  int64_t size = builder.type(builder.operand(0)).shape[dim_of(slice)];
  builder.set_grad(0, builder.emit_one(OpKind::kPad, {dy},
                                       {{"dim", slice.get_int("dim")},
                                        {"start", slice.get_int("start")},
                                        {"size", size},
                                        {"insert", slice.get_bool("drop")}}));
}

void pad_gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  const Attributes& pad = builder.attributes();
  bool insert = pad.get_bool("insert");
  int64_t length = insert ? 1 : builder.type(builder.operand(0)).shape[dim_of(pad)];
  builder.set_grad(
      0, builder.emit_one(
             OpKind::kSlice, {dy},
             {{"dim", pad.get_int("dim")}, {"start", pad.get_int("start")}, {"length", length}, {"drop", insert}}));
}

// `rank` dimensions on the larger side; the smaller may lack the sliced one, which is never split.
ShardingRule all_but_dim(const Attributes& attributes, size_t x_rank, size_t y_rank) {
  std::string whole = dim_letters(std::max(x_rank, y_rank));
  std::string sliced(1, whole[dim_of(attributes)]);
  std::string without = whole;
  without.erase(dim_of(attributes), 1);
  ShardingRule rule = ShardingRule::einsum(
      (x_rank == whole.size() ? whole : without) + "->" + (y_rank == whole.size() ? whole : without), sliced);
  rule.linear_jointly({0});
  return rule;
}

ShardingRule sharding_rule(const OpQuery& query) {
  return all_but_dim(query.attributes, query.operands[0].shape.size(), query.results[0].shape.size());
}

// Copies where the two meet. `small` holds indices [start, start + its size) of dimension `dim` of `large`, and lacks
// the dimension when its rank is one less.
template <class Copy>
void for_each_shared(const ReferenceTensor& large, const ReferenceTensor& small, size_t dim, int64_t start,
                     Copy&& copy) {
  bool is_dropped = small.region.dims.size() < large.region.dims.size();
  Region in_small = small.region;
  auto at_dim = in_small.dims.begin() + static_cast<std::ptrdiff_t>(dim);
  if (is_dropped) in_small.dims.insert(at_dim, {0, 1});
  Region in_large = shifted(large.region, dim, -start);
  std::array<IndexMap, 2> maps = {trailing_map(in_large, in_small), trailing_map(in_small, in_small)};
  for_each_offset(in_small, maps, copy);
}

void slice_reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  for_each_shared(x, y, dim_of(args.attributes), args.attributes.get_int("start"),
                  [&](auto at) { y.data[at[1]] = x.data[at[0]]; });
}

void pad_reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  std::fill_n(y.data, y.region.num_elements(), 0.0);
  for_each_shared(y, x, dim_of(args.attributes), args.attributes.get_int("start"),
                  [&](auto at) { y.data[at[0]] = x.data[at[1]]; });
}

}  // namespace

const OpDef kSliceOp = {
    .kind = OpKind::kSlice,
    .name = "slice",
    .summary = "y = indices [start, start + length) of dimension dim of x; with drop, y lacks the dimension",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_slice,
    .gradient = slice_gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = slice_reference,
};

const OpDef kPadOp = {
    .kind = OpKind::kPad,
    .name = "pad",
    .summary = "y = zeros, but x from index start of dimension dim, which has the given size; with insert, x lacks it",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_pad,
    .gradient = pad_gradient,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<0>,
    .reference = pad_reference,
};

}  // namespace tpc
