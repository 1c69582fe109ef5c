// One step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), in PyTorch's order of
// operations.
#include <cmath>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/optimizer_operands.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  check_optimizer_operands(query, {"parameter", "gradient", "first moment", "second moment"});
  require_decay_rate(query.attributes, "beta1");
  require_decay_rate(query.attributes, "beta2");
  return std::vector<TensorType>(3, query.operands[0]);
}

void reference(const ReferenceArgs& args) {
  const Attributes& attributes = args.attributes;
  double lr = attributes.get_double("lr");
  double beta1 = attributes.get_double("beta1");
  double beta2 = attributes.get_double("beta2");
  double eps = attributes.get_double("eps");
  double decay = 1 - lr * attributes.get_double("weight_decay");
  auto t = static_cast<double>(args.context.step + 1);
  double correction1 = 1 - std::pow(beta1, t);
  double correction2 = std::sqrt(1 - std::pow(beta2, t));
  double coefficient = attributes.get_bool("has_coefficient") ? args.operands[4].data[0] : 1.0;

  size_t first_result = args.operands.size();
  for_each_element(args, [&](auto at) {
    double g = coefficient * args.operands[1].data[at[1]];
    double m = beta1 * args.operands[2].data[at[2]] + (1 - beta1) * g;
    double v = beta2 * args.operands[3].data[at[3]] + (1 - beta2) * g * g;
    double w = decay * args.operands[0].data[at[0]];
    args.results[0].data[at[first_result]] = w - lr / correction1 * m / (std::sqrt(v) / correction2 + eps);
    args.results[1].data[at[first_result + 1]] = m;
    args.results[2].data[at[first_result + 2]] = v;
  });
}

}  // namespace

const OpDef kAdamWOp = {
    .kind = OpKind::kAdamW,
    .name = "adamw",
    .summary = "w, m, v of the next step from w, g, m, v [, coefficient of g]: AdamW with bias correction",
    .min_operands = 4,
    .max_operands = 5,
    .num_results = 3,
    .infer_types = infer_types,
    .sharding_rule = elementwise_rule,
    .cost = elementwise_cost<5>,
    .reference = reference,
    .inplace = {0, 2, 3},
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
