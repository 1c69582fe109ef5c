#include "runtime/cuda/device_queue.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {

DeviceQueue::DeviceQueue(Priority priority) {
  int lowest = 0;
  int highest = 0;
  TPC_CUDA(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  TPC_CUDA(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority == Priority::kHigh ? highest : lowest));
  context_ = std::make_unique<CudaMemory>(static_cast<int64_t>(sizeof(StepContext)), kDeviceMemory, stream_);
}

DeviceQueue::~DeviceQueue() {
  // What fails here has failed before.
  workspace_.reset();
  context_.reset();
  static_cast<void>(cudaStreamDestroy(stream_));
}

bool DeviceQueue::is_done() const {
  cudaError_t status = cudaStreamQuery(stream_);
  if (status == cudaErrorNotReady) return false;
  check_cuda(status, "a kernel");
  return true;
}

void DeviceQueue::set_context(const StepContext& context) {
  // Ordinary memory is read before the call returns, so the step before may still run.
  TPC_CUDA(cudaMemcpyAsync(context_->data(), &context, sizeof(StepContext), cudaMemcpyHostToDevice, stream_));
}

void DeviceQueue::reserve(int64_t bytes) {
  reserved_ = std::max(reserved_, bytes);
  if (bytes <= workspace_bytes_) return;
  TPC_CUDA(cudaStreamSynchronize(stream_));
  // Not beside the smaller one.
  workspace_.reset();
  workspace_bytes_ = 0;
  workspace_ = std::make_unique<CudaMemory>(bytes, kDeviceMemory, stream_);
  workspace_bytes_ = bytes;
}

int64_t DeviceQueue::take_reserved() { return std::exchange(reserved_, 0); }

}  // namespace tpc::cuda
