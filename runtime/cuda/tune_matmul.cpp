#include "runtime/cuda/tune_matmul.h"

#include <limits>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {
namespace {

constexpr int kWarmUps = 1;
constexpr int kRuns = 5;

// An event that tells the time.
class TimedEvent {
 public:
  TimedEvent() { TPC_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~TimedEvent() { static_cast<void>(cudaEventDestroy(event_)); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(cudaStream_t stream) { TPC_CUDA(cudaEventRecord(event_, stream)); }
  float ms_until(const TimedEvent& end) const {
    float ms = 0;
    TPC_CUDA(cudaEventSynchronize(end.event_));
    TPC_CUDA(cudaEventElapsedTime(&ms, event_, end.event_));
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

size_t fastest(size_t count, DeviceQueue& queue, const std::function<void(size_t)>& issue) {
  TimedEvent begin, end;
  size_t best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) {
    try {
      for (int run = 0; run < kWarmUps; ++run) issue(i);
      begin.record(queue.stream());
      for (int run = 0; run < kRuns; ++run) issue(i);
      end.record(queue.stream());
    } catch (const DeviceError&) {
      continue;
    }
    float ms = begin.ms_until(end);
    if (ms < least) {
      least = ms;
      best = i;
    }
  }
  return best;
}

}  // namespace tpc::cuda
