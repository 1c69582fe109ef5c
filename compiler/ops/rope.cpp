// Rotary position embedding (Su et al. 2021): rotates pairs of features by an angle that grows with the position.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  if (!is_float(x.dtype) || x.shape.size() != 4) {
    throw OpTypeError(fmt::format("rope wants f32[batch, sequence, heads, head_dim], found {}", to_string(x)));
  }
  int64_t rotary_dim = query.attributes.get_int("rotary_dim");
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > x.shape[3]) {
    throw OpTypeError(
        fmt::format("rope wants an even rotary_dim from 2 to the head size {}, found {}", x.shape[3], rotary_dim));
  }
  if (!(query.attributes.get_double("theta") > 0)) {
    throw OpTypeError(fmt::format("rope wants a positive theta, found {}", query.attributes.get_double("theta")));
  }
  return {x};
}

// A rotation's transpose is the rotation by the opposite angle.
void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  Attributes attributes = builder.attributes();
  attributes.set("inverse", !attributes.get_bool("inverse"));
  builder.set_grad(0, builder.emit_one(OpKind::kRope, {dy}, std::move(attributes)));
}

ShardingRule sharding_rule(const OpQuery&) { return ShardingRule::einsum("bsad->bsad", "d").linear_jointly({0}); }

OpCost cost(const OpQuery& query) {
  const TensorType& x = query.operands[0];
  double bytes = static_cast<double>(byte_size(x));
  return {3 * static_cast<double>(num_elements(x.shape)), bytes, bytes};
}

// Pair i of the rotary part lies at dimensions (i, i + rotary_dim / 2), or (2i, 2i + 1) when interleaved.
void reference(const ReferenceArgs& args) {
  const Region& region = args.operands[0].region;
  const double theta = args.attributes.get_double("theta");
  const int64_t rotary_dim = args.attributes.get_int("rotary_dim");
  const bool interleaved = args.attributes.get_bool("interleaved");
  const double direction = args.attributes.get_bool("inverse") ? -1 : 1;
  const int64_t heads = region.dims[2].size();
  const int64_t d = region.dims[3].size();
  const double* x = args.operands[0].data;
  double* y = args.results[0].data;
  for (int64_t b = 0; b < region.dims[0].size(); ++b) {
    for (int64_t position = region.dims[1].begin; position < region.dims[1].end; ++position) {
      for (int64_t a = 0; a < heads; ++a, x += d, y += d) {
        for (int64_t i = 0; i < rotary_dim / 2; ++i) {
          double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
          double angle = direction * static_cast<double>(position) * frequency;
          int64_t first = interleaved ? 2 * i : i;
          int64_t second = interleaved ? 2 * i + 1 : i + rotary_dim / 2;
          double u = x[first];
          double v = x[second];
          y[first] = u * std::cos(angle) - v * std::sin(angle);
          y[second] = v * std::cos(angle) + u * std::sin(angle);
        }
        for (int64_t i = rotary_dim; i < d; ++i) y[i] = x[i];
      }
    }
  }
}

}  // namespace

const OpDef kRopeOp = {
    .kind = OpKind::kRope,
    .name = "rope",
    .summary =
        "pairs (x_i, x_j) of x[b, s, a, d] turned by s * theta^(-2i / rotary_dim), backwards when inverse; "
        "j = i + rotary_dim / 2, or neighbours when interleaved",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .inplace = {0},
};

}  // namespace tpc
