/// Planted failures: FAKE_CUDA_FAIL=call:rankR:callN:outcome, several with semicolons between.
///   cudaMalloc:rank0:call3                       fails with what a GPU would likeliest say (out of memory)
///   ncclAllReduce:rank1:call7:ncclSystemError    fails with this
///   ncclAllReduce:rank1:call7:async              succeeds, but its work never ends; ncclCommGetAsyncError:
///   ncclRemoteError ncclAllReduce:rank1:call7:async=ncclInternalError ncclAllReduce:rank1:call7:stall succeeds, but
///   its work never begins cudaStreamSynchronize:rank1:call2:hang       never returns ncclAllReduce:rank1:call7:kill
///   the process ends as by SIGKILL
/// Calls of one name are counted for each rank, from 1; without rankR any rank, without callN every call.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <optional>
#include <string>

namespace fake_cuda {

enum class FailureKind { kStatus, kAsync, kStall };

struct Failure {
  FailureKind kind = FailureKind::kStatus;
  std::string status;  ///< name of the error, or "" for the usual one
};

/// Counts the call; hangs or ends the process where that is planned. `rank`: see Device::rank.
std::optional<Failure> planted_failure(const char* call, int rank);

/// The error of that name, or `usual` for "". Dies on a name that is none.
cudaError_t cuda_error(const std::string& name, cudaError_t usual);
ncclResult_t nccl_error(const std::string& name, ncclResult_t usual);
cublasStatus_t cublas_error(const std::string& name, cublasStatus_t usual);

}  // namespace fake_cuda
