// Functions of the CUDA runtime on streams.
#include <cuda_runtime_api.h>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  Device& device = this_device();
  std::lock_guard lock(machine().mutex);
  CUstream_st& made = machine().streams.emplace_back();
  made.device = &device;
  for (const CUstream_st& other : machine().streams) made.number += other.device == &device ? 1 : 0;
  made.flags = flags;
  made.priority = priority;
  device.streams.push_back(&made);
  *stream = &made;
  return cudaSuccess;
}

// A stream that captures has nothing to wait for.
cudaError_t refuse_if_capturing(cudaStream_t stream) {
  std::lock_guard lock(machine().mutex);
  if (stream->capture) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return refuse_in_capture();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return run_call("cudaStreamCreate", [&] { return create(stream, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return run_call("cudaStreamCreateWithFlags", [&] { return create(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return run_call("cudaStreamCreateWithPriority", [&] { return create(stream, flags, priority); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return run_call("cudaStreamGetPriority", [&] {
    check_stream("cudaStreamGetPriority", stream);
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return run_call("cudaStreamDestroy", [&] {
    check_stream("cudaStreamDestroy", stream);
    std::lock_guard lock(machine().mutex);
    // What it holds still runs.
    stream->destroyed = true;
    if (is_idle(*stream)) std::erase(stream->device->streams, stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return run_call("cudaStreamSynchronize", [&] {
    check_stream("cudaStreamSynchronize", stream);
    if (cudaError_t error = refuse_if_capturing(stream); error != cudaSuccess) return error;
    run_until("cudaStreamSynchronize", *stream->device, [&] { return is_idle(*stream); });
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return run_call("cudaStreamQuery", [&] {
    check_stream("cudaStreamQuery", stream);
    if (cudaError_t error = refuse_if_capturing(stream); error != cudaSuccess) return error;
    run_some(*stream->device);
    std::lock_guard lock(machine().mutex);
    return is_idle(*stream) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return run_call("cudaLaunchHostFunc", [&] {
    issue("cudaLaunchHostFunc", stream, simple_work("host function", [=] { function(data); }));
    return cudaSuccess;
  });
}

}  // extern "C"
