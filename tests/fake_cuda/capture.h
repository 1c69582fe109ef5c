/// Streams that record what they are given instead of running it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fake_cuda/work.h"

namespace fake_cuda {

struct Node {
  MakeWork make;
  std::vector<size_t> after;
  int lane = 0;  ///< number of the stream
};

struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  std::vector<cudaStream_t> streams;  ///< that have joined
  std::vector<Node> nodes;
  bool invalid = false;
  bool ended = false;
};

// All with the machine locked.

/// Appends to what the stream captures.
void capture_node(cudaStream_t stream, MakeWork make);
void capture_event_record(cudaEvent_t event, cudaStream_t stream);
/// The stream joins the capture of the event.
cudaError_t capture_event_wait(cudaStream_t stream, cudaEvent_t event);
/// For calls that a capture does not bear. The error when this thread may not make them now, and then its captures are
/// invalid.
cudaError_t refuse_in_capture();

}  // namespace fake_cuda
