#include "tests/fake_cuda/error_names.h"

namespace fake_cuda {
namespace {

#define ROW(error, sentence, sticky) \
  { error, #error, sentence, sticky }
constexpr CudaErrorName kCudaErrors[] = {
    ROW(cudaSuccess, "no error", false),
    ROW(cudaErrorInvalidValue, "invalid argument", false),
    ROW(cudaErrorMemoryAllocation, "out of memory", false),
    ROW(cudaErrorInitializationError, "initialization error", false),
    ROW(cudaErrorInvalidConfiguration, "invalid configuration argument", false),
    ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy", false),
    ROW(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version", false),
    ROW(cudaErrorNoDevice, "no CUDA-capable device is detected", false),
    ROW(cudaErrorInvalidDevice, "invalid device ordinal", false),
    ROW(cudaErrorInvalidResourceHandle, "invalid resource handle", false),
    ROW(cudaErrorNotReady, "device not ready", false),
    ROW(cudaErrorIllegalAddress, "an illegal memory access was encountered", true),
    ROW(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered", true),
    ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled", false),
    ROW(cudaErrorAssert, "device-side assert triggered", true),
    ROW(cudaErrorMisalignedAddress, "misaligned address", true),
    ROW(cudaErrorLaunchFailure, "unspecified launch failure", true),
    ROW(cudaErrorLaunchTimeout, "the launch timed out and was terminated", true),
    ROW(cudaErrorNotSupported, "operation not supported", false),
    ROW(cudaErrorSystemNotReady, "system not yet initialized", false),
    ROW(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing", false),
    ROW(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture", false),
    ROW(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences", false),
    ROW(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began", false),
    ROW(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work", false),
    ROW(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream", false),
    ROW(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream",
        false),
    ROW(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream", false),
    ROW(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread",
        false),
    ROW(cudaErrorUnknown, "unknown error", true),
};
#undef ROW

#define ROW(error, sentence) \
  { error, #error, sentence }
constexpr NcclErrorName kNcclErrors[] = {
    ROW(ncclSuccess, "no error"),
    ROW(ncclUnhandledCudaError, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
    ROW(ncclSystemError, "unhandled system error (run with NCCL_DEBUG=INFO for details)"),
    ROW(ncclInternalError, "internal error - please report this issue to the NCCL developers"),
    ROW(ncclInvalidArgument, "invalid argument (run with NCCL_DEBUG=WARN for details)"),
    ROW(ncclInvalidUsage, "invalid usage (run with NCCL_DEBUG=WARN for details)"),
    ROW(ncclRemoteError, "remote process exited or there was a network error"),
    ROW(ncclInProgress, "NCCL operation in progress"),
};
#undef ROW

}  // namespace

std::span<const CudaErrorName> cuda_error_names() { return kCudaErrors; }
std::span<const NcclErrorName> nccl_error_names() { return kNcclErrors; }

}  // namespace fake_cuda

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  for (const auto& row : fake_cuda::kCudaErrors) {
    if (row.error == error) return row.name;
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  for (const auto& row : fake_cuda::kCudaErrors) {
    if (row.error == error) return row.sentence;
  }
  return "unrecognized error code";
}

const char* ncclGetErrorString(ncclResult_t result) {
  for (const auto& row : fake_cuda::kNcclErrors) {
    if (row.error == result) return row.sentence;
  }
  return "unknown result code";
}

}  // extern "C"
