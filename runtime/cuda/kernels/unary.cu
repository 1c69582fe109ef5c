// Nonlinear functions and their derivatives, and the simple functions of one tensor: scale, square root, cast, fill.
#include "compiler/ops/unary.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/map_elements.cuh"

namespace tpc::cuda {
namespace {

constexpr float kGeluScale = 0.7978845608f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;
constexpr float kInverseSqrt2 = 0.7071067812f;
constexpr float kInverseSqrt2Pi = 0.3989422804f;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float normal_cumulative(float x) { return 0.5f * erfcf(-x * kInverseSqrt2); }
__device__ __forceinline__ float normal_density(float x) { return kInverseSqrt2Pi * expf(-0.5f * x * x); }
__device__ __forceinline__ float gelu_tanh_inner(float x) {
  return tanhf(kGeluScale * x * (1.0f + kGeluCubic * x * x));
}

template <UnaryFunction kFunction>
struct Value {
  __device__ __forceinline__ float operator()(float x) const {
    if constexpr (kFunction == UnaryFunction::kGelu) return x * normal_cumulative(x);
    if constexpr (kFunction == UnaryFunction::kGeluTanh) return 0.5f * x * (1.0f + gelu_tanh_inner(x));
    if constexpr (kFunction == UnaryFunction::kSilu) return x * sigmoid(x);
    if constexpr (kFunction == UnaryFunction::kRelu) return x > 0.0f ? x : 0.0f;
    if constexpr (kFunction == UnaryFunction::kExp) return expf(x);
    if constexpr (kFunction == UnaryFunction::kTanh) return tanhf(x);
    if constexpr (kFunction == UnaryFunction::kSigmoid) return sigmoid(x);
  }
};

template <UnaryFunction kFunction>
struct Gradient {
  __device__ __forceinline__ float operator()(float dy, float x) const { return dy * derivative(x); }

  static __device__ __forceinline__ float derivative(float x) {
    if constexpr (kFunction == UnaryFunction::kGelu) return normal_cumulative(x) + x * normal_density(x);
    if constexpr (kFunction == UnaryFunction::kGeluTanh) {
      const float t = gelu_tanh_inner(x);
      const float slope = kGeluScale * (1.0f + 3.0f * kGeluCubic * x * x);
      return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope;
    }
    if constexpr (kFunction == UnaryFunction::kSilu) {
      const float s = sigmoid(x);
      return s * (1.0f + x * (1.0f - s));
    }
    if constexpr (kFunction == UnaryFunction::kRelu) return x > 0.0f ? 1.0f : 0.0f;
    if constexpr (kFunction == UnaryFunction::kExp) return expf(x);
    if constexpr (kFunction == UnaryFunction::kTanh) {
      const float t = tanhf(x);
      return 1.0f - t * t;
    }
    if constexpr (kFunction == UnaryFunction::kSigmoid) {
      const float s = sigmoid(x);
      return s * (1.0f - s);
    }
  }
};

struct Scaled {
  float factor;
  __device__ __forceinline__ float operator()(float x) const { return x * factor; }
};
struct SquareRoot {
  __device__ __forceinline__ float operator()(float x) const { return sqrtf(x); }
};
struct Identity {
  __device__ __forceinline__ float operator()(float x) const { return x; }
};
struct Constant {
  float value;
  __device__ __forceinline__ float operator()() const { return value; }
};

/// result = function(operands...), all of the result's type.
template <class Function>
std::unique_ptr<Kernel> prepare_map(const char* name, const LocalStep& step, DeviceQueue& queue, Function function) {
  return with_float_type(step.results[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    T* y = data_of<T>(step.results[0]);
    const int64_t size = step.results[0].region.num_elements();
    if constexpr (std::is_same_v<Function, Constant>) {
      return make_kernel([=, &queue] { launch_map(name, queue, size, function, y); });
    } else {
      const T* x = data_of<T>(step.operands[0]);
      if constexpr (requires { function(0.0f, 0.0f); }) {
        const T* w = data_of<T>(step.operands[1]);
        return make_kernel([=, &queue] { launch_map(name, queue, size, function, y, x, w); });
      } else {
        return make_kernel([=, &queue] { launch_map(name, queue, size, function, y, x); });
      }
    }
  });
}

template <template <UnaryFunction> class Function>
std::unique_ptr<Kernel> prepare_function(const char* name, const LocalStep& step, DeviceQueue& queue) {
  switch (parse_unary_function(step.attributes.get_string("function"))) {
    case UnaryFunction::kGelu:
      return prepare_map(name, step, queue, Function<UnaryFunction::kGelu>{});
    case UnaryFunction::kGeluTanh:
      return prepare_map(name, step, queue, Function<UnaryFunction::kGeluTanh>{});
    case UnaryFunction::kSilu:
      return prepare_map(name, step, queue, Function<UnaryFunction::kSilu>{});
    case UnaryFunction::kRelu:
      return prepare_map(name, step, queue, Function<UnaryFunction::kRelu>{});
    case UnaryFunction::kExp:
      return prepare_map(name, step, queue, Function<UnaryFunction::kExp>{});
    case UnaryFunction::kTanh:
      return prepare_map(name, step, queue, Function<UnaryFunction::kTanh>{});
    case UnaryFunction::kSigmoid:
      return prepare_map(name, step, queue, Function<UnaryFunction::kSigmoid>{});
  }
  TPC_UNREACHABLE("unary function of \"{}\"", step.name);
}

}  // namespace

std::unique_ptr<Kernel> prepare_unary(const LocalStep& step, DeviceQueue& queue) {
  return prepare_function<Value>("unary", step, queue);
}

std::unique_ptr<Kernel> prepare_unary_grad(const LocalStep& step, DeviceQueue& queue) {
  return prepare_function<Gradient>("unary_grad", step, queue);
}

std::unique_ptr<Kernel> prepare_scale(const LocalStep& step, DeviceQueue& queue) {
  return prepare_map("scale", step, queue, Scaled{static_cast<float>(step.attributes.get_double("factor"))});
}

std::unique_ptr<Kernel> prepare_square_root(const LocalStep& step, DeviceQueue& queue) {
  return prepare_map("square_root", step, queue, SquareRoot{});
}

std::unique_ptr<Kernel> prepare_cast(const LocalStep& step, DeviceQueue& queue) {
  const int64_t size = step.results[0].region.num_elements();
  return with_float_type(step.operands[0].type.dtype, [&](auto from) {
    return with_float_type(step.results[0].type.dtype, [&](auto to) {
      const auto* x = data_of<decltype(from)>(step.operands[0]);
      auto* y = data_of<decltype(to)>(step.results[0]);
      return make_kernel([=, &queue] { launch_map("cast", queue, size, Identity{}, y, x); });
    });
  });
}

std::unique_ptr<Kernel> prepare_fill(const LocalStep& step, DeviceQueue& queue) {
  return prepare_map("fill", step, queue, Constant{static_cast<float>(step.attributes.get_double("value"))});
}

}  // namespace tpc::cuda
