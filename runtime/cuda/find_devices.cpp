#include "runtime/cuda/find_devices.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"

namespace tpc::cuda {
namespace {

// 13000 -> "13.0".
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

int find_devices() {
  // Without a driver this answers success and 0, where every other call fails.
  int driver = 0;
  int runtime = 0;
  TPC_CUDA(cudaDriverGetVersion(&driver));
  TPC_CUDA(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) {
    throw DeviceError(fmt::format(
        "no NVIDIA driver: libcuda.so.1 cannot be loaded; --device cuda needs a driver for CUDA {} or later",
        version_text(runtime)));
  }
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    throw DeviceError(fmt::format("the NVIDIA driver is for CUDA {}; this build needs one for CUDA {} or later",
                                  version_text(driver), version_text(runtime)));
  }
  if (status == cudaErrorStubLibrary) {
    throw DeviceError("no NVIDIA driver: the libcuda.so.1 that is found is the toolkit's stand-in for linking");
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw DeviceError(visible == nullptr ? std::string("no GPU is visible")
                                         : fmt::format("no GPU is visible: CUDA_VISIBLE_DEVICES is \"{}\"", visible));
  }
  check_cuda(status, "cudaGetDeviceCount");
  return count;
}

void require_usable(int device) {
  int major = 0;
  int minor = 0;
  TPC_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TPC_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  constexpr int kLeast = TPC_CUDA_LEAST_CAPABILITY;
  if (10 * major + minor >= kLeast) return;
  throw DeviceError(
      fmt::format("GPU {} has compute capability {}.{}; this build is for {}.{} or later, see "
                  "CMAKE_CUDA_ARCHITECTURES",
                  device, major, minor, kLeast / 10, kLeast % 10));
}

}  // namespace tpc::cuda
