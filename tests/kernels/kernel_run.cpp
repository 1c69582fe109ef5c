#include "tests/kernels/kernel_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/lowering/workspace.h"
#include "runtime/cuda/check_cuda.h"

namespace tpc::testing {
namespace {

using cuda::DeviceQueue;

constexpr std::byte kPattern{0xff};  // NaN in f32 and bf16
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kGuard = 0;  // reads are watched, too, just outside an allocation
#else
constexpr size_t kGuard = 256;
#endif

std::vector<std::byte> bytes_of(const TensorType& type, const std::vector<double>& values) {
  const size_t size = static_cast<size_t>(byte_size(type.dtype));
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word = type.dtype == DType::kI32 ? static_cast<uint32_t>(static_cast<int32_t>(values[i]))
                                              : std::bit_cast<uint32_t>(static_cast<float>(values[i]));
    if (type.dtype == DType::kBF16) word >>= 16;
    std::memcpy(&bytes[i * size], &word, size);
  }
  return bytes;
}

std::vector<double> values_of(const TensorType& type, const std::vector<std::byte>& bytes) {
  const size_t size = static_cast<size_t>(byte_size(type.dtype));
  std::vector<double> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, &bytes[i * size], size);
    if (type.dtype == DType::kBF16) word <<= 16;
    values[i] = type.dtype == DType::kI32 ? static_cast<double>(static_cast<int32_t>(word))
                                          : static_cast<double>(std::bit_cast<float>(word));
  }
  return values;
}

/// A tensor in device memory between bytes that no kernel may touch.
class DeviceTensor {
 public:
  DeviceTensor(const Part& part, const DeviceQueue& queue)
      : type_(part.type),
        bytes_(static_cast<size_t>(part.region.num_elements() * byte_size(part.type.dtype))),
        queue_(queue) {
    TPC_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes_ + 2 * kGuard));
    upload({});
  }
  ~DeviceTensor() { static_cast<void>(cudaFree(memory_)); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  void* data() const { return memory_ + kGuard; }
  const TensorType& type() const { return type_; }
  size_t bytes() const { return bytes_; }

  /// Values, or NaN where there are none.
  void upload(const std::vector<double>& values) {
    std::vector<std::byte> image(bytes_ + 2 * kGuard, kPattern);
    const std::vector<std::byte> inside = bytes_of(type_, values);
    std::ranges::copy(inside, image.begin() + static_cast<std::ptrdiff_t>(kGuard));
    TPC_CUDA(cudaMemcpyAsync(memory_, image.data(), image.size(), cudaMemcpyHostToDevice, queue_.stream()));
    TPC_CUDA(cudaStreamSynchronize(queue_.stream()));
  }

  std::vector<double> download() const {
    std::vector<std::byte> image(bytes_ + 2 * kGuard);
    TPC_CUDA(cudaMemcpyAsync(image.data(), memory_, image.size(), cudaMemcpyDeviceToHost, queue_.stream()));
    TPC_CUDA(cudaStreamSynchronize(queue_.stream()));
    const auto begin = image.begin() + static_cast<std::ptrdiff_t>(kGuard);
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
    const auto is_pattern = [](std::byte byte) { return byte == kPattern; };
    CHECK_MESSAGE(std::all_of(image.begin(), begin, is_pattern), "bytes before a tensor were written");
    CHECK_MESSAGE(std::all_of(end, image.end(), is_pattern), "bytes after a tensor were written");
    return values_of(type_, std::vector<std::byte>(begin, end));
  }

 private:
  TensorType type_;
  size_t bytes_ = 0;
  const DeviceQueue& queue_;
  std::byte* memory_ = nullptr;
};

using Tensors = std::vector<std::unique_ptr<DeviceTensor>>;

Tensors make_tensors(const std::vector<Part>& parts, const DeviceQueue& queue) {
  Tensors tensors;
  for (const Part& part : parts) tensors.push_back(std::make_unique<DeviceTensor>(part, queue));
  return tensors;
}

// Where result i lies.
DeviceTensor& tensor_of_result(size_t i, OpKind op, Buffers buffers, const Tensors& operands, const Tensors& results) {
  const std::vector<int>& inplace = op_def(op).inplace;
  if (buffers == Buffers::kSeparate || i >= inplace.size() || inplace[i] < 0) return *results[i];
  DeviceTensor& operand = *operands[static_cast<size_t>(inplace[i])];
  // The same elements: a reshaped region is another one.
  const bool fits = operand.type().dtype == results[i]->type().dtype && operand.bytes() == results[i]->bytes();
  return fits ? operand : *results[i];
}

/// A step with its tensors in device memory.
class DeviceStep {
 public:
  DeviceStep(const RankStep& step, Buffers buffers, const DeviceQueue& queue)
      : operands_(make_tensors(step.operands, queue)), results_(make_tensors(step.results, queue)) {
    local_ = {.op = step.op,
              .attributes = step.attributes,
              .operands = {},
              .results = {},
              .name = "step",
              .is_first_in_group = step.is_first_in_group};
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands_[i]->upload(step.operands[i].data);
      local_.operands.push_back({step.operands[i].type, step.operands[i].region, operands_[i]->data()});
      if (results_.empty()) written_.push_back(operands_[i].get());
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const DeviceTensor& tensor = tensor_of_result(i, step.op, buffers, operands_, results_);
      local_.results.push_back({step.results[i].type, step.results[i].region, tensor.data()});
      written_.push_back(&tensor);
    }
  }

  const LocalStep& local() const { return local_; }

  std::vector<std::vector<double>> download() const {
    std::vector<std::vector<double>> values;
    for (const DeviceTensor* tensor : written_) values.push_back(tensor->download());
    for (const auto& operand : operands_) operand->download();
    return values;
  }

 private:
  Tensors operands_;
  Tensors results_;
  LocalStep local_;
  std::vector<const DeviceTensor*> written_;
};

}  // namespace

std::vector<std::vector<std::vector<double>>> run_kernel_group(const PrepareGroup& prepare,
                                                               std::span<const RankStep> steps, Buffers buffers) {
  DeviceQueue queue;
  std::vector<DeviceStep> device_steps;
  std::vector<LocalStep> local_steps;
  for (const RankStep& step : steps) local_steps.push_back(device_steps.emplace_back(step, buffers, queue).local());
  const std::unique_ptr<Kernel> kernel = prepare(local_steps, queue);
  CHECK_EQ(queue.take_reserved(), kernel_workspace(local_steps));
  const StepContext& context = steps.front().context;
  queue.set_context(context);
  kernel->run(context);
  // A kernel keeps nothing from run to run.
  if (buffers == Buffers::kSeparate) kernel->run(context);

  std::vector<std::vector<std::vector<double>>> values;
  for (const DeviceStep& step : device_steps) values.push_back(step.download());
  return values;
}

std::vector<std::vector<double>> run_kernel(const Prepare& prepare, const RankStep& step, Buffers buffers) {
  auto prepare_one = [&](std::span<const LocalStep> steps, DeviceQueue& queue) {
    return prepare(steps.front(), queue);
  };
  return run_kernel_group(prepare_one, {&step, 1}, buffers).front();
}

}  // namespace tpc::testing
