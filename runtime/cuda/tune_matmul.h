/// Which of several ways is the fastest on this device.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// Issues each of `count` candidates several times and returns the one with the least time. One that fails is left out;
/// when all do, the first is returned.
size_t fastest(size_t count, DeviceQueue& queue, const std::function<void(size_t)>& issue);

}  // namespace tpc::cuda
