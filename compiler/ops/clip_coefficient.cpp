// The factor that brings a gradient's global norm down to the largest one allowed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

// As in PyTorch's clip_grad_norm_.
constexpr double kNormEps = 1e-6;

std::vector<TensorType> infer_types(const OpQuery& query) {
  require_f32(query.operands[0], "sum of squares");
  require_shape(query.operands[0], {}, "sum of squares", "the shape of a scalar");
  double max_norm = query.attributes.get_double("max_norm");
  if (!(max_norm > 0)) throw OpTypeError(fmt::format("the largest norm must be above 0, found {}", max_norm));
  return {query.operands[0]};
}

ShardingRule sharding_rule(const OpQuery&) { return {}; }

void reference(const ReferenceArgs& args) {
  double max_norm = args.attributes.get_double("max_norm");
  map_elements(args, [&](double squares) { return std::min(1.0, max_norm / (std::sqrt(squares) + kNormEps)); });
}

}  // namespace

const OpDef kClipCoefficientOp = {
    .kind = OpKind::kClipCoefficient,
    .name = "clip_coefficient",
    .summary = "y = min(1, max_norm / (sqrt(x) + 1e-6)), for the sum of squares x",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .sharding_rule = sharding_rule,
    .cost = elementwise_cost<4>,
    .reference = reference,
    .inplace = {0},
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
