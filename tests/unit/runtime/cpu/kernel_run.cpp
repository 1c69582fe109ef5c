#include "tests/unit/runtime/cpu/kernel_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "runtime/cpu/cpu_backend.h"

namespace tpc::testing {
namespace {

/// Bytes that no kernel may touch lie on both sides of the elements; the results themselves start as NaN.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(const Part& part)
      : type_(part.type), words_(static_cast<size_t>(part.region.num_elements()) + 2 * kGuard, kPattern) {}

  void* data() { return words_.data() + kGuard; }
  size_t size() const { return words_.size() - 2 * kGuard; }

  void set(const std::vector<double>& values) {
    for (size_t i = 0; i < size(); ++i) {
      if (type_.dtype == DType::kF32) {
        const float value = static_cast<float>(values[i]);
        std::memcpy(&words_[kGuard + i], &value, sizeof value);
      } else {
        words_[kGuard + i] = static_cast<uint32_t>(static_cast<int32_t>(values[i]));
      }
    }
  }

  std::vector<double> floats() const {
    std::vector<double> values(size());
    for (size_t i = 0; i < size(); ++i) {
      float value = 0;
      std::memcpy(&value, &words_[kGuard + i], sizeof value);
      values[i] = static_cast<double>(value);
    }
    return values;
  }

  bool is_intact() const {
    auto is_pattern = [](uint32_t word) { return word == kPattern; };
    return std::all_of(words_.begin(), words_.begin() + kGuard, is_pattern) &&
           std::all_of(words_.end() - kGuard, words_.end(), is_pattern);
  }

 private:
  static constexpr size_t kGuard = 32;
  static constexpr uint32_t kPattern = 0x7fc0beef;  // a NaN

  TensorType type_;
  std::vector<uint32_t> words_;
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
    if (operands[operand].size() == results[i].size()) result_buffers.back() = &operands[operand];
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
