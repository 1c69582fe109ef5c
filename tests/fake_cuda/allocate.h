/// Memory of a device, given out and taken back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

namespace fake_cuda {

/// No more than cudaMalloc promises.
constexpr uint64_t kDeviceAlignment = 256;

/// On the current device.
cudaError_t allocate(const char* call, void** pointer, size_t bytes, uint64_t alignment);
/// Waits for the device first, as cudaFree does. Dies when the pointer is not one that `made_by` gave out and nobody
/// took back.
cudaError_t release(const char* call, void* pointer, std::string_view made_by);

}  // namespace fake_cuda
