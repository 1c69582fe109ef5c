#include "runtime/cuda/check_nccl.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "compiler/core/check.h"

namespace tpc::cuda {

void check_nccl(ncclResult_t status, const char* call, ncclComm_t communicator) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  std::string_view text = call;
  const char* last = ncclGetLastError(communicator);
  std::string more = last != nullptr && *last != '\0' ? fmt::format(": {}", last) : "";
  if (more.find("Duplicate GPU") != std::string::npos) {
    more += "; give each rank a GPU of its own, or share GPUs with --allow-shared-gpu";
  }
  throw DeviceError(fmt::format("{} failed: {}{}", text.substr(0, text.find('(')), ncclGetErrorString(status), more));
}

}  // namespace tpc::cuda
