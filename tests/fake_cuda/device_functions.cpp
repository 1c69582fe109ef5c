// Functions of the CUDA runtime on devices.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

constexpr int kNumProcessors = 132;
constexpr int kSharedMemory = 48 << 10;
constexpr int kSharedMemoryOptIn = 227 << 10;
constexpr int kL2 = 50 << 20;

bool exists(int device) { return device >= 0 && static_cast<size_t>(device) < machine().settings.devices.size(); }

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  switch (machine().settings.driver) {
    case DriverState::kNone:
      *version = 0;
      break;
    case DriverState::kOld:
      *version = CUDART_VERSION - 1000;
      break;
    case DriverState::kPresent:
      *version = CUDART_VERSION;
      break;
    case DriverState::kNewer:
      *version = CUDART_VERSION + 1000;
      break;
  }
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  cudaError_t error = driver_error();
  if (error == cudaSuccess) *count = static_cast<int>(machine().settings.devices.size());
  return after_call(error);
}

cudaError_t cudaSetDevice(int device) {
  return run_call("cudaSetDevice", [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    set_current_device(device);
    static_cast<void>(this_device());
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return run_call("cudaGetDevice", [&] {
    *device = current_device();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return run_call("cudaDeviceGetAttribute", [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = kNumProcessors;
        break;
      case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
      case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = kSharedMemory;
        break;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = kSharedMemoryOptIn;
        break;
      case cudaDevAttrWarpSize:
        *value = 32;
        break;
      case cudaDevAttrL2CacheSize:
        *value = kL2;
        break;
      case cudaDevAttrUnifiedAddressing:
        *value = 1;
        break;
      case cudaDevAttrMemoryPoolsSupported:
        *value = 0;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return run_call("cudaGetDeviceProperties", [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof *properties);
    std::snprintf(properties->name, sizeof properties->name, "fake H200");
    properties->totalGlobalMem = machine().settings.memory;
    properties->major = 9;
    properties->multiProcessorCount = kNumProcessors;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerBlock = kSharedMemory;
    properties->sharedMemPerBlockOptin = kSharedMemoryOptIn;
    properties->warpSize = 32;
    properties->l2CacheSize = kL2;
    properties->unifiedAddressing = 1;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 3;
    properties->streamPrioritiesSupported = 1;
    properties->pciBusID = machine().settings.devices[static_cast<size_t>(device)] + 1;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return run_call("cudaDeviceGetPCIBusId", [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0",
                  static_cast<unsigned>(machine().settings.devices[static_cast<size_t>(device)] + 1) & 0xffU);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return run_call("cudaDeviceGetStreamPriorityRange", [&] {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return run_call("cudaDeviceCanAccessPeer", [&] {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return run_call("cudaMemGetInfo", [&] {
    Device& device = this_device();
    std::lock_guard lock(machine().mutex);
    *free = device.memory.capacity() - device.memory.used();
    *total = device.memory.capacity();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return run_call("cudaDeviceSynchronize", [&] {
    {
      std::lock_guard lock(machine().mutex);
      if (cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    }
    Device& device = this_device();
    run_until("cudaDeviceSynchronize", device, [&] { return is_idle(device); });
    return cudaSuccess;
  });
}

// Kernels are emulated: what a GPU would set aside for them is checked at their launch.
cudaError_t cudaFuncSetAttribute(const void* /*function*/, cudaFuncAttribute attribute, int value) {
  return run_call("cudaFuncSetAttribute", [&] {
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value > kSharedMemoryOptIn) {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
