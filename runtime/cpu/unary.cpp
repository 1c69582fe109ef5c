// Nonlinear functions and their derivatives.
#include "compiler/ops/unary.h"

#include "compiler/core/check.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/vector_math.h"

namespace tpc {
namespace {

constexpr float kGeluScale = 0.7978845608f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;
/// Operations of one element, for deciding on threads.
constexpr int64_t kWork = 8;

Vector gelu_tanh_inner(Vector x) {
  return vector_tanh(kGeluScale * x * multiply_add(x * x, broadcast(kGeluCubic), broadcast(1.0f)));
}

template <UnaryFunction kFunction>
Vector value(Vector x) {
  if constexpr (kFunction == UnaryFunction::kGelu) return x * vector_normal(x).cumulative;
  if constexpr (kFunction == UnaryFunction::kGeluTanh) return 0.5f * x * (1.0f + gelu_tanh_inner(x));
  if constexpr (kFunction == UnaryFunction::kSilu) return x * vector_sigmoid(x);
  if constexpr (kFunction == UnaryFunction::kRelu) return x > 0.0f ? x : Vector{};
  if constexpr (kFunction == UnaryFunction::kExp) return vector_exp(x);
  if constexpr (kFunction == UnaryFunction::kTanh) return vector_tanh(x);
  if constexpr (kFunction == UnaryFunction::kSigmoid) return vector_sigmoid(x);
}

template <UnaryFunction kFunction>
Vector derivative(Vector x) {
  if constexpr (kFunction == UnaryFunction::kGelu) {
    const NormalDistribution normal = vector_normal(x);
    return multiply_add(x, normal.density, normal.cumulative);
  }
  if constexpr (kFunction == UnaryFunction::kGeluTanh) {
    const Vector t = gelu_tanh_inner(x);
    const Vector slope = kGeluScale * multiply_add(x * x, broadcast(3 * kGeluCubic), broadcast(1.0f));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope;
  }
  if constexpr (kFunction == UnaryFunction::kSilu) {
    const Vector s = vector_sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
  }
  if constexpr (kFunction == UnaryFunction::kRelu) return x > 0.0f ? broadcast(1.0f) : Vector{};
  if constexpr (kFunction == UnaryFunction::kExp) return vector_exp(x);
  if constexpr (kFunction == UnaryFunction::kTanh) {
    const Vector t = vector_tanh(x);
    return 1.0f - t * t;
  }
  if constexpr (kFunction == UnaryFunction::kSigmoid) {
    const Vector s = vector_sigmoid(x);
    return s * (1.0f - s);
  }
}

template <UnaryFunction kFunction>
std::unique_ptr<Kernel> make_value_kernel(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(size, kWork, [&](int64_t begin, int64_t end) {
      map_vectors(end - begin, y + begin, value<kFunction>, x + begin);
    });
  });
}

template <UnaryFunction kFunction>
std::unique_ptr<Kernel> make_grad_kernel(const LocalStep& step) {
  const float* dy = step.operands[0].f32();
  const float* x = step.operands[1].f32();
  float* dx = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel([=](const StepContext&) {
    parallel_ranges(size, kWork, [&](int64_t begin, int64_t end) {
      map_vectors(
          end - begin, dx + begin, [](Vector g, Vector v) { return g * derivative<kFunction>(v); }, dy + begin,
          x + begin);
    });
  });
}

UnaryFunction function_of(const LocalStep& step) {
  return parse_unary_function(step.attributes.get_string("function"));
}

}  // namespace

std::unique_ptr<Kernel> prepare_unary(const LocalStep& step) {
  switch (function_of(step)) {
    case UnaryFunction::kGelu:
      return make_value_kernel<UnaryFunction::kGelu>(step);
    case UnaryFunction::kGeluTanh:
      return make_value_kernel<UnaryFunction::kGeluTanh>(step);
    case UnaryFunction::kSilu:
      return make_value_kernel<UnaryFunction::kSilu>(step);
    case UnaryFunction::kRelu:
      return make_value_kernel<UnaryFunction::kRelu>(step);
    case UnaryFunction::kExp:
      return make_value_kernel<UnaryFunction::kExp>(step);
    case UnaryFunction::kTanh:
      return make_value_kernel<UnaryFunction::kTanh>(step);
    case UnaryFunction::kSigmoid:
      return make_value_kernel<UnaryFunction::kSigmoid>(step);
  }
  TPC_UNREACHABLE("unary function of \"{}\"", step.name);
}

std::unique_ptr<Kernel> prepare_unary_grad(const LocalStep& step) {
  switch (function_of(step)) {
    case UnaryFunction::kGelu:
      return make_grad_kernel<UnaryFunction::kGelu>(step);
    case UnaryFunction::kGeluTanh:
      return make_grad_kernel<UnaryFunction::kGeluTanh>(step);
    case UnaryFunction::kSilu:
      return make_grad_kernel<UnaryFunction::kSilu>(step);
    case UnaryFunction::kRelu:
      return make_grad_kernel<UnaryFunction::kRelu>(step);
    case UnaryFunction::kExp:
      return make_grad_kernel<UnaryFunction::kExp>(step);
    case UnaryFunction::kTanh:
      return make_grad_kernel<UnaryFunction::kTanh>(step);
    case UnaryFunction::kSigmoid:
      return make_grad_kernel<UnaryFunction::kSigmoid>(step);
  }
  TPC_UNREACHABLE("unary function of \"{}\"", step.name);
}

}  // namespace tpc
