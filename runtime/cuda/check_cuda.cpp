#include "runtime/cuda/check_cuda.h"

#include <fmt/format.h>

#include <string_view>

#include "compiler/core/check.h"

namespace tpc::cuda {

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  std::string_view text = call;
  throw DeviceError(fmt::format("{} failed: {} ({})", text.substr(0, text.find('(')), cudaGetErrorString(status),
                                cudaGetErrorName(status)));
}

}  // namespace tpc::cuda
