#include "runtime/cuda/step_graph.h"

#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {
namespace {

// Ends a capture that a failure has left open.
class CaptureScope {
 public:
  explicit CaptureScope(cudaStream_t stream) : stream_(stream) {
    TPC_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  }
  ~CaptureScope() {
    if (is_ended_) return;
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  cudaGraph_t end() {
    is_ended_ = true;
    cudaGraph_t graph = nullptr;
    TPC_CUDA(cudaStreamEndCapture(stream_, &graph));
    return graph;
  }

 private:
  cudaStream_t stream_;
  bool is_ended_ = false;
};

}  // namespace

StepGraph::~StepGraph() {
  if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
}

void StepGraph::run(DeviceQueue& compute, DeviceQueue& communication, bool is_eager,
                    const std::function<void()>& issue) {
  if (is_eager || !has_run_) {
    has_run_ = true;
    issue_joined(compute, communication, issue);
    return;
  }
  if (graph_ == nullptr) capture(compute, communication, issue);
  TPC_CUDA(cudaGraphLaunch(graph_, compute.stream()));
}

void StepGraph::capture(DeviceQueue& compute, DeviceQueue& communication, const std::function<void()>& issue) {
  CaptureScope scope(compute.stream());
  issue_joined(compute, communication, issue);
  cudaGraph_t graph = scope.end();
  cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check_cuda(status, "cudaGraphInstantiate");
}

// What lies in the compute queue before comes first; what is issued to it later comes after all that `issue` brought to
// either queue.
void StepGraph::issue_joined(DeviceQueue& compute, DeviceQueue& communication, const std::function<void()>& issue) {
  begin_.record(compute.stream());
  begin_.await(communication.stream());
  issue();
  end_.record(communication.stream());
  end_.await(compute.stream());
}

}  // namespace tpc::cuda
