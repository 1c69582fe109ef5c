#include "tests/fake_cuda/call.h"

#include <algorithm>

#include "tests/fake_cuda/error_names.h"

namespace fake_cuda {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

bool is_sticky(cudaError_t error) {
  auto names = cuda_error_names();
  return std::any_of(names.begin(), names.end(), [&](const CudaErrorName& n) { return n.error == error && n.sticky; });
}

}  // namespace

cudaError_t driver_error() {
  const Settings& settings = machine().settings;
  if (settings.driver == DriverState::kNone || settings.driver == DriverState::kOld) return cudaErrorInsufficientDriver;
  return settings.devices.empty() ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t before_call(const char* call, cudaError_t usual) {
  if (cudaError_t error = driver_error(); error != cudaSuccess) return error;
  Device& device = this_device();
  std::optional<Failure> failure = planted_failure(call, device.rank);
  std::lock_guard lock(machine().mutex);
  if (device.sticky != cudaSuccess) return device.sticky;
  if (!failure) return cudaSuccess;
  cudaError_t error = cuda_error(failure->status, usual);
  if (is_sticky(error)) device.sticky = error;
  return error;
}

cudaError_t after_call(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

Device& this_device() {
  std::lock_guard lock(machine().mutex);
  return machine().device(current_device());
}

}  // namespace fake_cuda

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(fake_cuda::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return fake_cuda::last_error; }

}  // extern "C"
