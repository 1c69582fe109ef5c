// Changes of placement: redistribute (what is wanted), the collectives and the local moves (how). None has a gradient:
// the backward pass is built before any of them exists.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_same(const OpQuery& query) { return {query.operands[0]}; }

std::vector<TensorType> infer_move(const OpQuery& query) {
  const std::vector<int64_t>& axes = query.attributes.get_ints("axes");
  bool is_increasing = std::is_sorted(axes.begin(), axes.end(), std::less_equal<>());
  if (axes.empty() || axes[0] < 0 || !is_increasing) {
    throw OpTypeError(fmt::format("\"axes\" must be increasing mesh axes, found [{}]", fmt::join(axes, ", ")));
  }
  return infer_same(query);
}

std::vector<TensorType> infer_reduction(const OpQuery& query) {
  require_choice(query.attributes.get_string("op"), {"sum", "max"}, "reduction");
  return infer_move(query);
}

// What the rank itself reads and writes; what it receives is the business of sharding/collective.h.
constexpr auto kMoveCost = elementwise_cost<0>;

OpCost reduction_cost(const OpQuery& query) {
  OpCost cost = elementwise_cost(query, 0);
  cost.flops = static_cast<double>(num_elements(query.operands[0].shape));
  return cost;
}

Interval intersection(const Interval& a, const Interval& b) {
  int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

void copy(const ReferenceTensor& x, const ReferenceTensor& y, const Region& region) {
  std::array<IndexMap, 2> maps = {trailing_map(x.region, region), trailing_map(y.region, region)};
  for_each_offset(region, maps, [&](auto at) { y.data[at[1]] = x.data[at[0]]; });
}

void local_slice_reference(const ReferenceArgs& args) {
  copy(args.operands[0], args.results[0], args.results[0].region);
}

void mask_reference(const ReferenceArgs& args) {
  map_elements(args, [&](double x) { return args.is_first_in_group ? x : 0.0; });
}

void zero_pad_reference(const ReferenceArgs& args) {
  const ReferenceTensor& x = args.operands[0];
  const ReferenceTensor& y = args.results[0];
  std::fill_n(y.data, y.region.num_elements(), 0.0);
  Region shared = y.region;
  for (size_t i = 0; i < shared.dims.size(); ++i) shared.dims[i] = intersection(shared.dims[i], x.region.dims[i]);
  copy(x, y, shared);
}

}  // namespace

const OpDef kRedistributeOp = {
    .kind = OpKind::kRedistribute,
    .name = "redistribute",
    .summary = "x with another placement",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_same,
    .cost = kMoveCost,
};

const OpDef kAllReduceOp = {
    .kind = OpKind::kAllReduce,
    .name = "all_reduce",
    .summary = "P -> R: the sum (or maximum) over the ranks, on every rank",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_reduction,
    .cost = reduction_cost,
    .inplace = {0},
};

const OpDef kReduceScatterOp = {
    .kind = OpKind::kReduceScatter,
    .name = "reduce_scatter",
    .summary = "P -> S(d): every rank's block of the sum (or maximum)",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_reduction,
    .cost = reduction_cost,
};

const OpDef kAllGatherOp = {
    .kind = OpKind::kAllGather,
    .name = "all_gather",
    .summary = "S(d) -> R: the blocks of all ranks, on every rank",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_move,
    .cost = kMoveCost,
};

const OpDef kAllToAllOp = {
    .kind = OpKind::kAllToAll,
    .name = "all_to_all",
    .summary = "S(d) -> S(e): blocks of one dimension for blocks of another",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_move,
    .cost = kMoveCost,
};

const OpDef kLocalSliceOp = {
    .kind = OpKind::kLocalSlice,
    .name = "local_slice",
    .summary = "R -> S(d): the rank's own block",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_move,
    .cost = kMoveCost,
    .reference = local_slice_reference,
};

const OpDef kMaskOp = {
    .kind = OpKind::kMask,
    .name = "mask",
    .summary = "R -> P: the first rank of the group keeps x, the others have zeros",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_move,
    .cost = kMoveCost,
    .reference = mask_reference,
    .inplace = {0},
};

const OpDef kZeroPadOp = {
    .kind = OpKind::kZeroPad,
    .name = "zero_pad",
    .summary = "S(d) -> P: the rank's own block with zeros around",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_move,
    .cost = kMoveCost,
    .reference = zero_pad_reference,
};

}  // namespace tpc
