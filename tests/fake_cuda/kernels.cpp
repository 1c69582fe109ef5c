#include "tests/fake_cuda/kernels.h"

#include <atomic>

#include "tests/emulation/gpu_emulation.h"
#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

namespace fake_cuda {
namespace {

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return run_call(
      "kernel",
      [&] {
        check_stream("a kernel's launch", stream);
        uint64_t number = ++stream->device->num_launches;
        log_call(stream, "kernel", "", 0, {});
        issue("a kernel's launch", stream,
              simple_work(fmt::format("kernel (launch {} on the device)", number), std::move(work)));
        return cudaSuccess;
      },
      cudaErrorLaunchFailure);
}

}  // namespace

void queue_kernels() { gpu::enqueue = enqueue; }

}  // namespace fake_cuda
