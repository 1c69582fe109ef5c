// add, subtract, multiply and divide. All operands but the first may lack leading dimensions: element i of the result
// meets element i % size of such an operand.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "runtime/cuda/device_table.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/map_elements.cuh"

namespace tpc::cuda {
namespace {

template <class T>
struct Term {
  const T* data;
  int64_t size;
};

/// The operands; those that are too many for a kernel's arguments lie in a table.
template <class T>
struct Terms {
  static constexpr int kHere = 16;
  Term<T> here[kHere];
  const Term<T>* others;
  int count;

  __device__ __forceinline__ Term<T> operator[](int i) const { return i < kHere ? here[i] : others[i - kHere]; }
};

struct Addition {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct Subtraction {
  __device__ __forceinline__ float operator()(float a, float b) const { return a - b; }
};
struct Multiplication {
  __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
};
struct Division {
  __device__ __forceinline__ float operator()(float a, float b) const { return b == 0.0f ? 0.0f : a / b; }
};

/// Elements i, i + 1, ... of the result's index in a term.
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_repeated(const Term<T>& term, int64_t i) {
  int64_t position = i < term.size ? i : i % term.size;
  if (position % N == 0 && position + N <= term.size) return load_pack<N>(term.data + position);
  Pack<T, N> values;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    values.values[j] = term.data[position];
    position = position + 1 == term.size ? 0 : position + 1;
  }
  return values;
}

// y may lie over terms that are as large.
template <class T, class Combine>
__global__ void __launch_bounds__(kMapThreads)
    combine_terms(const __grid_constant__ Terms<T> terms, int64_t size, bool packed, T* y, Combine combine) {
  const int64_t begin = blockIdx.x * kMapChunk;
  for_each_pack<kPackSize<T>>(begin, min(size, begin + kMapChunk), packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    float values[kSize];
    const Pack<T, kSize> first = load_pack<kSize>(terms[0].data + i);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = to_float(first.values[j]);
    for (int k = 1; k < terms.count; ++k) {
      const Pack<T, kSize> next = load_repeated<kSize>(terms[k], i);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = combine(values[j], to_float(next.values[j]));
    }
    Pack<T, kSize> result;
#pragma unroll
    for (int j = 0; j < kSize; ++j) result.values[j] = from_float<T>(values[j]);
    store_pack(y + i, result);
  });
}

template <class Combine>
std::unique_ptr<Kernel> prepare_combination(const char* name, const LocalStep& step, DeviceQueue& queue) {
  return with_float_type(step.results[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    T* y = data_of<T>(step.results[0]);
    const int64_t size = step.results[0].region.num_elements();
    bool packed = is_pack_aligned(y);
    Terms<T> terms = {};
    std::vector<Term<T>> others;
    for (const LocalTensor& operand : step.operands) {
      const Term<T> term = {data_of<T>(operand), operand.region.num_elements()};
      packed = packed && is_pack_aligned(term.data);
      if (terms.count < Terms<T>::kHere) {
        terms.here[terms.count] = term;
      } else {
        others.push_back(term);
      }
      ++terms.count;
    }
    DeviceTable<Term<T>> table(std::span<const Term<T>>(others), queue);
    terms.others = table.data();
    return make_kernel([=, &queue, table = std::move(table)] {
      launch(name, combine_terms<T, Combine>, map_shape(size), queue, terms, size, packed, y, Combine{});
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_add(const LocalStep& step, DeviceQueue& queue) {
  return prepare_combination<Addition>("add", step, queue);
}

std::unique_ptr<Kernel> prepare_subtract(const LocalStep& step, DeviceQueue& queue) {
  return prepare_combination<Subtraction>("subtract", step, queue);
}

std::unique_ptr<Kernel> prepare_multiply(const LocalStep& step, DeviceQueue& queue) {
  return prepare_combination<Multiplication>("multiply", step, queue);
}

std::unique_ptr<Kernel> prepare_divide(const LocalStep& step, DeviceQueue& queue) {
  return prepare_combination<Division>("divide", step, queue);
}

}  // namespace tpc::cuda
