// add, subtract, multiply, divide and scale. The last operand may lack leading dimensions: element i of the result
// meets element i % size of such an operand.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {
namespace {

/// Elements that a thread takes at a time, in the first-level cache.
constexpr int64_t kBlock = 2048;

struct Operand {
  const float* data = nullptr;
  int64_t size = 0;
};

Operand operand_of(const LocalTensor& tensor) { return {tensor.f32(), tensor.region.num_elements()}; }

/// out[i] = function(a[i], b's element begin + i) for i < count.
template <class Function>
void combine(float* out, const float* a, Operand b, int64_t begin, int64_t count, const Function& function) {
  if (b.size == 1) {
    const Vector value = broadcast(*b.data);
    map_vectors(
        count, out, [&](Vector x) { return function(x, value); }, a);
    return;
  }
  int64_t position = begin % b.size;
  for (int64_t done = 0; done < count; position = 0) {
    const int64_t length = std::min(count - done, b.size - position);
    map_vectors(length, out + done, function, a + done, b.data + position);
    done += length;
  }
}

/// Calls body(begin, count) for blocks of a tensor of `size` elements.
template <class Body>
void for_each_block(int64_t size, const Body& body) {
  parallel_ranges((size + kBlock - 1) / kBlock, kBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      body(block * kBlock, std::min(kBlock, size - block * kBlock));
    }
  });
}

template <class Function>
std::unique_ptr<Kernel> prepare_binary(const LocalStep& step, Function function) {
  const Operand a = operand_of(step.operands[0]);
  const Operand b = operand_of(step.operands[1]);
  float* out = step.results[0].f32();
  return make_kernel([=](const StepContext&) {
    for_each_block(
        a.size, [&](int64_t begin, int64_t count) { combine(out + begin, a.data + begin, b, begin, count, function); });
  });
}

constexpr auto kAddition = [](Vector a, Vector b) { return a + b; };

}  // namespace

std::unique_ptr<Kernel> prepare_add(const LocalStep& step) {
  if (step.operands.size() == 2) return prepare_binary(step, kAddition);
  std::vector<Operand> operands;
  for (const LocalTensor& tensor : step.operands) operands.push_back(operand_of(tensor));
  float* out = step.results[0].f32();
  return make_kernel([=](const StepContext&) {
    for_each_block(operands[0].size, [&](int64_t begin, int64_t count) {
      // Summed beside the result, which may lie over an operand that is named twice.
      std::array<float, kBlock> sum;
      combine(sum.data(), operands[0].data + begin, operands[1], begin, count, kAddition);
      for (size_t i = 2; i < operands.size(); ++i) {
        combine(sum.data(), sum.data(), operands[i], begin, count, kAddition);
      }
      std::copy_n(sum.data(), count, out + begin);
    });
  });
}

std::unique_ptr<Kernel> prepare_subtract(const LocalStep& step) {
  return prepare_binary(step, [](Vector a, Vector b) { return a - b; });
}

std::unique_ptr<Kernel> prepare_multiply(const LocalStep& step) {
  return prepare_binary(step, [](Vector a, Vector b) { return a * b; });
}

std::unique_ptr<Kernel> prepare_divide(const LocalStep& step) {
  return prepare_binary(step, [](Vector a, Vector b) { return b == 0.0f ? Vector{} : a / b; });
}

std::unique_ptr<Kernel> prepare_scale(const LocalStep& step) {
  const Operand x = operand_of(step.operands[0]);
  float* out = step.results[0].f32();
  const float factor = static_cast<float>(step.attributes.get_double("factor"));
  return make_kernel([=](const StepContext&) {
    for_each_block(x.size, [&](int64_t begin, int64_t count) {
      map_vectors(
          count, out + begin, [&](Vector value) { return value * factor; }, x.data + begin);
    });
  });
}

}  // namespace tpc
