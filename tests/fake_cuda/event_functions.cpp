// Functions of the CUDA runtime on events. A wait is for the record that was the last one at the call of the wait.
#include <cuda_runtime_api.h>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

cudaError_t create(cudaEvent_t* event, unsigned flags) {
  Device& device = this_device();
  std::lock_guard lock(machine().mutex);
  CUevent_st& made = machine().events.emplace_back();
  made.device = &device;
  made.number = static_cast<int>(machine().events.size());
  made.timing = (flags & cudaEventDisableTiming) == 0;
  *event = &made;
  return cudaSuccess;
}

cudaError_t refuse_captured(cudaEvent_t event) {
  std::lock_guard lock(machine().mutex);
  if (event->capture) {
    event->capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  return refuse_in_capture();
}

std::string event_name(const char* verb, const CUevent_st& event, uint64_t record) {
  return fmt::format("{} event {} (record {})", verb, event.number, record);
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return run_call("cudaEventCreate", [&] { return create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return run_call("cudaEventCreateWithFlags", [&] { return create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return run_call("cudaEventDestroy", [&] {
    check_event("cudaEventDestroy", event);
    std::lock_guard lock(machine().mutex);
    event->destroyed = true;
    event->capture = nullptr;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return run_call("cudaEventRecord", [&] {
    check_event("cudaEventRecord", event);
    check_stream("cudaEventRecord", stream);
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    log_call(stream, "cudaEventRecord", fmt::format("event {}", event->number), 0, {});
    uint64_t record = 0;
    {
      std::lock_guard lock(machine().mutex);
      if (stream->capture) {
        capture_event_record(event, stream);
        return cudaSuccess;
      }
      event->capture = nullptr;
      record = ++event->recorded;
    }
    issue("cudaEventRecord", stream, simple_work(event_name("record of", *event, record), [=] {
            std::lock_guard lock(machine().mutex);
            event->done = std::max(event->done, record);
            event->at = std::chrono::steady_clock::now();
          }));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return run_call("cudaStreamWaitEvent", [&] {
    check_event("cudaStreamWaitEvent", event);
    check_stream("cudaStreamWaitEvent", stream);
    log_call(stream, "cudaStreamWaitEvent", fmt::format("event {}", event->number), 0, {});
    uint64_t record = 0;
    {
      std::lock_guard lock(machine().mutex);
      if (stream->capture || event->capture) return capture_event_wait(stream, event);
      record = event->recorded;
    }
    issue("cudaStreamWaitEvent", stream, [=] {
      return Work{event_name("wait for", *event, record),
                  [=] {
                    std::lock_guard lock(machine().mutex);
                    return event->done >= record ? Progress::kDone : Progress::kBlocked;
                  },
                  nullptr};
    });
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return run_call("cudaEventQuery", [&] {
    check_event("cudaEventQuery", event);
    if (cudaError_t error = refuse_captured(event); error != cudaSuccess) return error;
    run_some(*event->device);
    std::lock_guard lock(machine().mutex);
    return event->done >= event->recorded ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return run_call("cudaEventSynchronize", [&] {
    check_event("cudaEventSynchronize", event);
    if (cudaError_t error = refuse_captured(event); error != cudaSuccess) return error;
    uint64_t record = 0;
    {
      std::lock_guard lock(machine().mutex);
      record = event->recorded;
    }
    run_until("cudaEventSynchronize", *event->device, [&] { return event->done >= record; });
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return run_call("cudaEventElapsedTime", [&] {
    check_event("cudaEventElapsedTime", start);
    check_event("cudaEventElapsedTime", end);
    std::lock_guard lock(machine().mutex);
    if (!start->timing || !end->timing || start->recorded == 0 || end->recorded == 0) {
      return cudaErrorInvalidResourceHandle;
    }
    if (start->done < start->recorded || end->done < end->recorded) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
    return cudaSuccess;
  });
}

}  // extern "C"
