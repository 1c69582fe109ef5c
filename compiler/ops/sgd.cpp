// One step of stochastic gradient descent as in PyTorch: weight decay added to the gradient, no dampening, no Nesterov.
#include "compiler/ops/elementwise.h"
#include "compiler/ops/optimizer_operands.h"

namespace tpc {
namespace {

bool has_momentum(const Attributes& attributes) { return attributes.get_double("momentum") != 0; }

std::vector<TensorType> infer_types(const OpQuery& query) {
  require_decay_rate(query.attributes, "momentum");
  std::vector<std::string_view> names = {"parameter", "gradient"};
  if (has_momentum(query.attributes)) names.emplace_back("momentum");
  check_optimizer_operands(query, names);
  return std::vector<TensorType>(names.size() - 1, query.operands[0]);
}

// The first step's momentum is the gradient itself, which 0 * momentum + g says too.
void reference(const ReferenceArgs& args) {
  const Attributes& attributes = args.attributes;
  double lr = attributes.get_double("lr");
  double momentum = attributes.get_double("momentum");
  double weight_decay = attributes.get_double("weight_decay");
  bool keeps_momentum = has_momentum(attributes);
  double coefficient = attributes.get_bool("has_coefficient") ? args.operands.back().data[0] : 1.0;

  size_t first_result = args.operands.size();
  for_each_element(args, [&](auto at) {
    double w = args.operands[0].data[at[0]];
    double change = coefficient * args.operands[1].data[at[1]] + weight_decay * w;
    if (keeps_momentum) {
      change += momentum * args.operands[2].data[at[2]];
      args.results[1].data[at[first_result + 1]] = change;
    }
    args.results[0].data[at[first_result]] = w - lr * change;
  });
}

}  // namespace

const OpDef kSgdOp = {
    .kind = OpKind::kSgd,
    .name = "sgd",
    .summary = "w [, momentum] of the next step from w, g [, momentum] [, coefficient of g]",
    .min_operands = 2,
    .max_operands = 4,
    .num_results = -1,
    .infer_types = infer_types,
    .sharding_rule = elementwise_rule,
    .cost = elementwise_cost<3>,
    .reference = reference,
    .inplace = {0, 2},
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
