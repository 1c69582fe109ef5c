/// An event between the streams of a rank.
#pragma once

#include <cuda_runtime.h>

#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {

class Event {
 public:
  Event() { TPC_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  // What fails here has failed before.
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { TPC_CUDA(cudaEventRecord(event_, stream)); }
  /// What is issued to the stream from now on runs after what lay before the latest record().
  void await(cudaStream_t stream) { TPC_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tpc::cuda
