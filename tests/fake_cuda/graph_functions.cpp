// Functions of the CUDA runtime on captures and graphs.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

template <class Handle>
void check_graph(const char* call, const Handle* graph) {
  if (graph == nullptr) die("{}: no graph", call);
  std::lock_guard lock(machine().mutex);
  if (graph->destroyed) die("{}: graph {} of device {} was destroyed", call, graph->number, graph->device->index);
}

// Whether every node of every stream comes before the end of the origin.
bool is_joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size(), false);
  std::vector<size_t> next = capture.origin->tail;
  while (!next.empty()) {
    size_t node = next.back();
    next.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    for (size_t before : capture.nodes[node].after) next.push_back(before);
  }
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](cudaStream_t stream) {
    return std::all_of(stream->tail.begin(), stream->tail.end(), [&](size_t node) { return reached[node]; });
  });
}

void end(Capture& capture) {
  capture.ended = true;
  for (cudaStream_t stream : capture.streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard lock(machine().mutex);
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    capture->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  bool joined = is_joined(*capture);
  end(*capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  CUgraph_st& made = machine().graphs.emplace_back();
  made.device = stream->device;
  made.number = static_cast<int>(machine().graphs.size());
  made.nodes = std::move(capture->nodes);
  *graph = &made;
  return cudaSuccess;
}

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  std::lock_guard lock(machine().mutex);
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorIllegalState;
  }
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream};
  stream->capture = capture;
  stream->tail.clear();
  std::erase_if(machine().captures, [](const std::weak_ptr<Capture>& weak) { return weak.expired(); });
  machine().captures.push_back(capture);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return run_call("cudaStreamBeginCapture", [&] {
    check_stream("cudaStreamBeginCapture", stream);
    return begin_capture(stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return run_call("cudaStreamEndCapture", [&] {
    check_stream("cudaStreamEndCapture", stream);
    return end_capture(stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return run_call("cudaStreamIsCapturing", [&] {
    check_stream("cudaStreamIsCapturing", stream);
    std::lock_guard lock(machine().mutex);
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* num_nodes) {
  return run_call("cudaGraphGetNodes", [&] {
    check_graph("cudaGraphGetNodes", graph);
    if (nodes != nullptr) return cudaErrorNotSupported;
    *num_nodes = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  return run_call("cudaGraphInstantiate", [&] {
    check_graph("cudaGraphInstantiate", graph);
    std::lock_guard lock(machine().mutex);
    CUgraphExec_st& made = machine().executables.emplace_back();
    made.device = graph->device;
    made.number = static_cast<int>(machine().executables.size());
    made.nodes = graph->nodes;
    *executable = &made;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return run_call("cudaGraphUpload", [&] {
    check_graph("cudaGraphUpload", executable);
    check_stream("cudaGraphUpload", stream);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return run_call("cudaGraphLaunch", [&] {
    check_graph("cudaGraphLaunch", executable);
    check_stream("cudaGraphLaunch", stream);
    {
      std::lock_guard lock(machine().mutex);
      if (stream->capture) {
        stream->capture->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
      }
    }
    log_call(stream, "cudaGraphLaunch", fmt::format("{} nodes", executable->nodes.size()), 0, {});
    issue_graph(stream, *executable);
    return cudaSuccess;
  });
}

// Graphs go also after an error that stays: they are the host's.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  check_graph("cudaGraphExecDestroy", executable);
  {
    std::lock_guard lock(machine().mutex);
    executable->destroyed = true;
    executable->nodes.clear();
  }
  return run_call("cudaGraphExecDestroy", [] { return cudaSuccess; });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  check_graph("cudaGraphDestroy", graph);
  {
    std::lock_guard lock(machine().mutex);
    graph->destroyed = true;
    graph->nodes.clear();
  }
  return run_call("cudaGraphDestroy", [] { return cudaSuccess; });
}

}  // extern "C"
