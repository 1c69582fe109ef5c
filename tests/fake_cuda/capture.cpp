#include "tests/fake_cuda/capture.h"

#include <algorithm>

#include "tests/fake_cuda/machine.h"

namespace fake_cuda {
namespace {

void add(std::vector<size_t>& to, const std::vector<size_t>& from) {
  for (size_t node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

}  // namespace

void capture_node(cudaStream_t stream, MakeWork make) {
  std::vector<Node>& nodes = stream->capture->nodes;
  nodes.push_back({std::move(make), std::move(stream->tail), stream->number});
  stream->tail = {nodes.size() - 1};
}

void capture_event_record(cudaEvent_t event, cudaStream_t stream) {
  event->capture = stream->capture;
  event->after = stream->tail;
}

cudaError_t capture_event_wait(cudaStream_t stream, cudaEvent_t event) {
  std::shared_ptr<Capture> capture = event->capture;
  if (!capture || capture->ended) {
    // Outside of its capture the event stands for nothing that ever happens.
    if (!stream->capture) return cudaErrorCapturedEvent;
    if (!capture && event->recorded == 0) return cudaSuccess;
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (stream->capture && stream->capture != capture) {
    stream->capture->invalid = capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (!stream->capture) {
    stream->capture = capture;
    stream->tail.clear();
    capture->streams.push_back(stream);
  }
  add(stream->tail, event->after);
  return cudaSuccess;
}

cudaError_t refuse_in_capture() {
  cudaError_t error = cudaSuccess;
  for (const std::weak_ptr<Capture>& weak : machine().captures) {
    std::shared_ptr<Capture> capture = weak.lock();
    if (!capture || capture->ended || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) continue;
    capture->invalid = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

}  // namespace fake_cuda
