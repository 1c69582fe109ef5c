#include "runtime/cuda/check_nccl.h"

#include <fmt/format.h>

#include <string_view>

#include "compiler/core/check.h"

namespace tpc::cuda {

void check_nccl(ncclResult_t status, const char* call, ncclComm_t communicator) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  std::string_view text = call;
  const char* last = ncclGetLastError(communicator);
  bool has_more = last != nullptr && *last != '\0';
  throw DeviceError(fmt::format("{} failed: {}{}{}", text.substr(0, text.find('(')), ncclGetErrorString(status),
                                has_more ? ": " : "", has_more ? last : ""));
}

}  // namespace tpc::cuda
