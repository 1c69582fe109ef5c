#include "runtime/cuda/device_queue.h"

#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {

DeviceQueue::DeviceQueue() {
  TPC_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  TPC_CUDA(cudaMalloc(&context_, sizeof(StepContext)));
  TPC_CUDA(cudaMallocHost(&host_context_, sizeof(StepContext)));
}

DeviceQueue::~DeviceQueue() {
  // What fails here has failed before.
  static_cast<void>(cudaStreamSynchronize(stream_));
  static_cast<void>(cudaFree(workspace_));
  static_cast<void>(cudaFreeHost(host_context_));
  static_cast<void>(cudaFree(context_));
  static_cast<void>(cudaStreamDestroy(stream_));
}

void DeviceQueue::set_context(const StepContext& context) {
  // The copy of the step before may still read.
  TPC_CUDA(cudaStreamSynchronize(stream_));
  *host_context_ = context;
  TPC_CUDA(cudaMemcpyAsync(context_, host_context_, sizeof(StepContext), cudaMemcpyHostToDevice, stream_));
}

void DeviceQueue::reserve(int64_t bytes) {
  if (bytes <= workspace_bytes_) return;
  TPC_CUDA(cudaStreamSynchronize(stream_));
  TPC_CUDA(cudaFree(workspace_));
  workspace_ = nullptr;
  workspace_bytes_ = 0;
  TPC_CUDA(cudaMalloc(&workspace_, static_cast<size_t>(bytes)));
  workspace_bytes_ = bytes;
}

}  // namespace tpc::cuda
