/// What this process can see of GPUs.
#pragma once

namespace tpc::cuda {

/// How many there are, at least 1. Throws DeviceError with one sentence: no driver, a driver too old for the runtime,
/// no GPU.
int find_devices();

/// Throws DeviceError unless kernels of this build run on the device.
void require_usable(int device);

}  // namespace tpc::cuda
