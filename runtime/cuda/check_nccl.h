/// Calls of NCCL outside a communicator's life; what belongs to one goes through NcclWorld.
#pragma once

#include <nccl.h>

#include <string>

namespace tpc::cuda {

/// Throws DeviceError that names the call, what NCCL says, and its last error where it has one.
void check_nccl(ncclResult_t status, const char* call, ncclComm_t communicator = nullptr);

}  // namespace tpc::cuda

#define TPC_NCCL(call) ::tpc::cuda::check_nccl((call), #call)
