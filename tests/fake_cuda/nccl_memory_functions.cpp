// Functions of NCCL on memory: allocation and registration.
#include <nccl.h>

#include "tests/fake_cuda/allocate.h"
#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/report.h"

struct ncclWindow_vidmem {
  ncclComm* communicator;
};

using namespace fake_cuda;

namespace {

// NCCL gives out memory that may be a window.
constexpr uint64_t kWindowAlignment = NCCL_WIN_REQUIRED_ALIGNMENT;

// A handle for ncclCommDeregister.
struct Registration {
  ncclComm* communicator;
};

Allocation allocation_of(const void* pointer) {
  std::lock_guard lock(machine().mutex);
  return *machine().device_of(pointer)->memory.find(pointer);
}

void note_registered(ncclComm& communicator, const void* handle, const void* buffer) {
  std::lock_guard lock(machine().mutex);
  communicator.registered[handle] = buffer;
}

void forget_registered(ncclComm& communicator, const void* handle) {
  std::lock_guard lock(machine().mutex);
  communicator.registered.erase(handle);
}

}  // namespace

extern "C" {

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call("ncclMemAlloc", planted); result != ncclSuccess) return result;
  cudaError_t error = allocate("ncclMemAlloc", pointer, bytes, kWindowAlignment);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* pointer) {
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call("ncclMemFree", planted); result != ncclSuccess) return result;
  return release("ncclMemFree", pointer, "ncclMemAlloc") == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* buffer, size_t bytes, void** handle) {
  check_communicator("ncclCommRegister", communicator);
  if (ncclResult_t result = communicator->check_usable("ncclCommRegister"); result != ncclSuccess) return result;
  check_device_range("ncclCommRegister", "the buffer", buffer, bytes, communicator->device->index);
  *handle = communicator->handles.emplace_back(std::make_shared<Registration>(Registration{communicator})).get();
  note_registered(*communicator, *handle, buffer);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t communicator, void* handle) {
  check_communicator("ncclCommDeregister", communicator);
  auto* registration = static_cast<Registration*>(handle);
  if (registration->communicator != communicator) die("ncclCommDeregister: the buffer is another communicator's");
  forget_registered(*communicator, handle);
  std::erase_if(communicator->handles, [&](const auto& held) { return held.get() == handle; });
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* buffer, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  const char* call = "ncclCommWindowRegister";
  check_communicator(call, communicator);
  if (ncclResult_t result = communicator->check_usable(call); result != ncclSuccess) return result;
  check_device_range(call, "the buffer", buffer, bytes, communicator->device->index);
  Allocation allocation = allocation_of(buffer);
  uint64_t offset = static_cast<uint64_t>(static_cast<std::byte*>(buffer) - allocation.data);
  if (allocation.made_by != "ncclMemAlloc" || offset % kWindowAlignment != 0) {
    say(fmt::format("{}: {} is not of ncclMemAlloc, or not aligned to {} bytes", call, describe_address(buffer),
                    kWindowAlignment));
    return ncclInvalidArgument;
  }
  std::vector<Note> notes = communicator->exchange(call, {bytes, offset, static_cast<uint64_t>(flags)});
  for (size_t rank = 0; rank < notes.size(); ++rank) {
    if (notes[rank] == notes[static_cast<size_t>(communicator->rank)]) continue;
    say(fmt::format("{}: rank {} registers {} bytes at offset {} of its allocation, rank {} {} bytes at {}", call,
                    communicator->rank, bytes, offset, rank, notes[rank][0], notes[rank][1]));
    return ncclInvalidUsage;
  }
  *window = new ncclWindow_vidmem{communicator};
  note_registered(*communicator, *window, buffer);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t communicator, ncclWindow_t window) {
  check_communicator("ncclCommWindowDeregister", communicator);
  if (window->communicator != communicator) die("ncclCommWindowDeregister: the window is another communicator's");
  forget_registered(*communicator, window);
  delete window;
  return ncclSuccess;
}

}  // extern "C"
