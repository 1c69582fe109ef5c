#include "tests/unit/runtime/cpu/kernel_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "compiler/core/bfloat16.h"
#include "runtime/cpu/cpu_backend.h"

namespace tpc::testing {
namespace {

/// Bytes that no kernel may touch lie on both sides of the elements; the results themselves start as NaN.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(const Part& part)
      : type_(part.type),
        size_(static_cast<size_t>(part.region.num_elements())),
        bytes_(size_ * element_size() + 2 * kGuard, kPattern) {}

  void* data() { return bytes_.data() + kGuard; }
  const TensorType& type() const { return type_; }
  size_t size() const { return size_; }

  void set(const std::vector<double>& values) {
    for (size_t i = 0; i < size(); ++i) {
      switch (type_.dtype) {
        case DType::kF32:
          put(i, static_cast<float>(values[i]));
          break;
        case DType::kBF16:
          put(i, BFloat16(static_cast<float>(values[i])));
          break;
        case DType::kI32:
          put(i, static_cast<int32_t>(values[i]));
          break;
      }
    }
  }

  std::vector<double> floats() const {
    std::vector<double> values(size());
    for (size_t i = 0; i < size(); ++i) {
      bool is_half = type_.dtype == DType::kBF16;
      values[i] = is_half ? static_cast<double>(at<BFloat16>(i)) : static_cast<double>(at<float>(i));
    }
    return values;
  }

  bool is_intact() const {
    auto is_pattern = [](uint8_t byte) { return byte == kPattern; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_pattern) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), is_pattern);
  }

 private:
  static constexpr size_t kGuard = 128;
  static constexpr uint8_t kPattern = 0xff;  // a NaN of any float

  size_t element_size() const { return static_cast<size_t>(byte_size(type_.dtype)); }
  template <class Element>
  void put(size_t i, Element value) {
    std::memcpy(&bytes_[kGuard + i * sizeof value], &value, sizeof value);
  }
  template <class Element>
  Element at(size_t i) const {
    Element value{};
    std::memcpy(&value, &bytes_[kGuard + i * sizeof value], sizeof value);
    return value;
  }

  TensorType type_;
  size_t size_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::vector<std::vector<double>> run_cpu(const RankStep& step, Buffers buffers) {
  std::vector<GuardedBuffer> operands;
  for (const Part& part : step.operands) operands.emplace_back(part).set(part.data);
  std::vector<GuardedBuffer> results;
  for (const Part& part : step.results) results.emplace_back(part);

  const std::vector<int>& inplace = op_def(step.op).inplace;
  std::vector<GuardedBuffer*> result_buffers;
  for (size_t i = 0; i < results.size(); ++i) {
    result_buffers.push_back(&results[i]);
    if (buffers == Buffers::kSeparate || i >= inplace.size() || inplace[i] < 0) continue;
    const size_t operand = static_cast<size_t>(inplace[i]);
    // The same elements: a reshaped region is another one.
    bool is_same =
        operands[operand].size() == results[i].size() && operands[operand].type().dtype == results[i].type().dtype;
    if (is_same) result_buffers.back() = &operands[operand];
  }

  LocalStep local{.op = step.op,
                  .attributes = step.attributes,
                  .operands = {},
                  .results = {},
                  .name = "step",
                  .is_first_in_group = step.is_first_in_group};
  for (size_t i = 0; i < operands.size(); ++i) {
    local.operands.push_back({step.operands[i].type, step.operands[i].region, operands[i].data()});
  }
  for (size_t i = 0; i < results.size(); ++i) {
    local.results.push_back({step.results[i].type, step.results[i].region, result_buffers[i]->data()});
  }
  std::unique_ptr<Kernel> kernel = make_cpu_backend()->prepare(local);
  kernel->run(step.context);
  if (buffers == Buffers::kSeparate) kernel->run(step.context);

  for (const GuardedBuffer& buffer : operands) CHECK(buffer.is_intact());
  for (const GuardedBuffer& buffer : results) CHECK(buffer.is_intact());
  std::vector<std::vector<double>> values;
  for (const GuardedBuffer* buffer : result_buffers) values.push_back(buffer->floats());
  return values;
}

}  // namespace tpc::testing
