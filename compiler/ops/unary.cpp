// Nonlinear functions of one tensor, and their gradient.
#include "compiler/ops/unary.h"

#include <cmath>
#include <numbers>

#include "compiler/core/check.h"
#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

constexpr double kGeluCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }
double gelu_tanh_inner(double x) { return std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)); }

UnaryFunction function_of(const Attributes& attributes) {
  return parse_unary_function(attributes.get_string("function"));
}

std::vector<TensorType> infer_unary(const OpQuery& query) {
  function_of(query.attributes);
  return infer_broadcast(query);
}

std::vector<TensorType> infer_unary_grad(const OpQuery& query) {
  function_of(query.attributes);
  require_float(query.operands[0], "dy");
  require_float_like(query.operands[1], query.operands[0], "x");
  require_shape(query.operands[0], query.operands[1].shape, "dy", "the shape of x");
  return {query.operands[0]};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(0)) return;
  builder.set_grad(0, builder.emit_one(OpKind::kUnaryGrad, {dy, builder.operand(0)}, builder.attributes()));
}

ShardingRule unary_grad_rule(const OpQuery& query) {
  ShardingRule rule = elementwise_rule(query);
  rule.linear_jointly({0});
  return rule;
}

void unary_reference(const ReferenceArgs& args) {
  map_elements(args, [f = function_of(args.attributes)](double x) { return unary_value(f, x); });
}

void unary_grad_reference(const ReferenceArgs& args) {
  map_elements(args, [f = function_of(args.attributes)](double dy, double x) { return dy * unary_derivative(f, x); });
}

}  // namespace

const std::vector<std::string>& unary_function_names() {
  static const std::vector<std::string> names = {"gelu", "gelu_tanh", "silu", "relu", "exp", "tanh", "sigmoid"};
  return names;
}

UnaryFunction parse_unary_function(const std::string& name) {
  const std::vector<std::string>& names = unary_function_names();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<UnaryFunction>(i);
  }
  require_choice(name, names, "function");
  TPC_UNREACHABLE("function \"{}\"", name);
}

double unary_value(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kGelu:
      return x * normal_cdf(x);
    case UnaryFunction::kGeluTanh:
      return 0.5 * x * (1 + gelu_tanh_inner(x));
    case UnaryFunction::kSilu:
      return x * sigmoid(x);
    case UnaryFunction::kRelu:
      return x > 0 ? x : 0;
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kTanh:
      return std::tanh(x);
    case UnaryFunction::kSigmoid:
      return sigmoid(x);
  }
  TPC_UNREACHABLE("function {}", static_cast<int>(function));
}

double unary_derivative(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kGelu:
      return normal_cdf(x) + x * normal_density(x);
    case UnaryFunction::kGeluTanh: {
      double t = gelu_tanh_inner(x);
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
    }
    case UnaryFunction::kSilu: {
      double s = sigmoid(x);
      return s * (1 + x * (1 - s));
    }
    case UnaryFunction::kRelu:
      return x > 0 ? 1 : 0;
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kTanh: {
      double t = std::tanh(x);
      return 1 - t * t;
    }
    case UnaryFunction::kSigmoid: {
      double s = sigmoid(x);
      return s * (1 - s);
    }
  }
  TPC_UNREACHABLE("function {}", static_cast<int>(function));
}

const OpDef kUnaryOp = {
    .kind = OpKind::kUnary,
    .name = "unary",
    .summary = "y = f(x); f is gelu, gelu_tanh, silu, relu, exp, tanh or sigmoid",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_unary,
    .gradient = gradient,
    .sharding_rule = elementwise_rule,
    .cost = elementwise_cost<8>,
    .reference = unary_reference,
    .inplace = {0},
};

const OpDef kUnaryGradOp = {
    .kind = OpKind::kUnaryGrad,
    .name = "unary_grad",
    .summary = "dx = dy * f'(x)",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_unary_grad,
    .sharding_rule = unary_grad_rule,
    .cost = elementwise_cost<12>,
    .reference = unary_grad_reference,
    .inplace = {0},
};

}  // namespace tpc
