// Functions of the CUDA runtime on memory of devices and pinned memory.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/allocate.h"
#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

namespace fake_cuda {

cudaError_t allocate(const char* call, void** pointer, size_t bytes, uint64_t alignment) {
  Device& device = this_device();
  std::lock_guard lock(machine().mutex);
  if (cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  // A test framework may have put its handler in the place of ours.
  report_memory_faults();
  Allocation* allocation = device.memory.allocate(bytes, alignment, call);
  if (allocation == nullptr) return cudaErrorMemoryAllocation;
  *pointer = allocation->data;
  return cudaSuccess;
}

cudaError_t release(const char* call, void* pointer, std::string_view made_by) {
  Device* owner = nullptr;
  {
    std::lock_guard lock(machine().mutex);
    if (cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    owner = machine().device_of(pointer);
  }
  if (pointer == nullptr) return cudaSuccess;
  if (owner == nullptr) die("{} of {}", call, describe_address(pointer));
  // A GPU waits, too, for all that was issued to it.
  run_until(call, *owner, [&] { return is_idle(*owner); });
  std::unique_lock lock(machine().mutex);
  Allocation* allocation = owner->memory.find(pointer);
  if (allocation == nullptr || allocation->data != pointer || !allocation->live ||
      (allocation->made_by != made_by && !(allocation->is_managed() && made_by == "cudaMalloc"))) {
    bool twice = allocation != nullptr && allocation->data == pointer && !allocation->live;
    lock.unlock();
    die("{} of {}{}", call, describe_address(pointer),
        twice ? ": it is released twice" : ", which is not what was allocated");
  }
  for (const std::unique_ptr<ncclComm>& communicator : machine().communicators) {
    if (communicator->ended) continue;
    for (const auto& [handle, buffer] : communicator->registered) {
      if (owner->memory.find(buffer) != allocation) continue;
      lock.unlock();
      die("{} of {}: it is still registered with communicator {}", call, describe_address(pointer),
          communicator->name());
    }
  }
  owner->memory.release(*allocation);
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

namespace {

constexpr size_t kPinnedAlignment = 4096;

cudaError_t allocate_pinned(void** pointer, size_t bytes) {
  std::lock_guard lock(machine().mutex);
  if (cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* data = nullptr;
  if (posix_memalign(&data, kPinnedAlignment, bytes) != 0) return cudaErrorMemoryAllocation;
  std::memset(data, 0xff, bytes);
  machine().pinned.emplace(static_cast<const std::byte*>(data), PinnedMemory{bytes, ++machine().num_pinned});
  *pointer = data;
  return cudaSuccess;
}

// Copies out of it may still be issued.
void wait_for_all() {
  for (size_t i = 0; i < machine().devices.size(); ++i) {
    Device* device = nullptr;
    {
      std::lock_guard lock(machine().mutex);
      device = machine().devices[i].get();
    }
    if (device != nullptr && device->index == current_device()) {
      run_until("cudaFreeHost", *device, [&] { return is_idle(*device); });
    }
  }
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return run_call(
      "cudaMalloc", [&] { return allocate("cudaMalloc", pointer, bytes, kDeviceAlignment); },
      cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned /*flags*/) {
  return run_call(
      "cudaMallocManaged", [&] { return allocate("cudaMallocManaged", pointer, bytes, kDeviceAlignment); },
      cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* pointer) {
  return run_call("cudaFree", [&] { return release("cudaFree", pointer, "cudaMalloc"); });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return run_call(
      "cudaMallocHost", [&] { return allocate_pinned(pointer, bytes); }, cudaErrorMemoryAllocation);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  return run_call(
      "cudaHostAlloc", [&] { return allocate_pinned(pointer, bytes); }, cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* pointer) {
  return run_call("cudaFreeHost", [&] {
    {
      std::lock_guard lock(machine().mutex);
      if (cudaError_t error = refuse_in_capture(); error != cudaSuccess) return error;
    }
    if (pointer == nullptr) return cudaSuccess;
    wait_for_all();
    std::unique_lock lock(machine().mutex);
    if (machine().pinned.erase(static_cast<const std::byte*>(pointer)) == 0) {
      lock.unlock();
      die("cudaFreeHost of {}, which is not what was allocated (or no longer)", describe_address(pointer));
    }
    std::free(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return run_call("cudaPointerGetAttributes", [&] {
    std::lock_guard lock(machine().mutex);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    if (Device* device = machine().device_of(pointer)) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = device->index;
      attributes->devicePointer = const_cast<void*>(pointer);
    } else if (auto after = machine().pinned.upper_bound(static_cast<const std::byte*>(pointer));
               after != machine().pinned.begin() &&
               static_cast<const std::byte*>(pointer) < std::prev(after)->first + std::prev(after)->second.bytes) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = current_device();
      attributes->hostPointer = attributes->devicePointer = const_cast<void*>(pointer);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
