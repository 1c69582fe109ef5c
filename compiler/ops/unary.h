/// The nonlinear functions of the ops unary and unary_grad.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

enum class UnaryFunction : uint8_t { kGelu, kGeluTanh, kSilu, kRelu, kExp, kTanh, kSigmoid };

/// "gelu", "gelu_tanh", "silu", "relu", "exp", "tanh", "sigmoid".
const std::vector<std::string>& unary_function_names();
/// Throws OpTypeError, with the nearest name, for another name.
UnaryFunction parse_unary_function(const std::string& name);

/// f(x) and f'(x). gelu is x * Phi(x) with the error function, gelu_tanh its approximation by tanh; relu'(0) = 0.
double unary_value(UnaryFunction function, double x);
double unary_derivative(UnaryFunction function, double x);

}  // namespace tpc
