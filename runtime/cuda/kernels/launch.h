/// Puts a kernel on the queue's stream.
#pragma once

#include <cstdint>
#include <limits>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/device_queue.h"
#include "runtime/cuda/gpu.h"

namespace tpc::cuda {

/// Blocks in one dimension, of `threads` threads, with `shared_bytes` of dynamic shared memory each.
struct LaunchShape {
  int64_t blocks = 1;
  unsigned threads = 256;
  size_t shared_bytes = 0;
};

/// `name` stands in the message when the device refuses the kernel.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, const DeviceQueue& queue,
            const Arguments&... arguments) {
  TPC_CHECK(shape.blocks <= std::numeric_limits<int32_t>::max(), "{} wants {} blocks", name, shape.blocks);
  check_cuda(gpu::launch(kernel, dim3(static_cast<unsigned>(shape.blocks)), dim3(shape.threads), shape.shared_bytes,
                         queue.stream(), arguments...),
             name);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tpc::cuda
