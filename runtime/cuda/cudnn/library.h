/// libcudnn.so.9, which is no part of the program: opened when a plan has attention for it.
#pragma once

#include <cudnn_backend.h>

#include <string>
#include <string_view>

#include "compiler/core/check.h"

namespace tpc::cuda::cudnn {

/// A call of cuDNN that failed: "cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED (no driver)".
class CudnnError : public DeviceError {
 public:
  CudnnError(cudnnStatus_t status, const std::string& message) : DeviceError(message), status_(status) {}
  /// True when the library does not do what it was asked for, in this version or on this device; false when it or the
  /// device failed.
  bool is_refusal() const;

 private:
  cudnnStatus_t status_;
};

/// The functions that are used, under their names without "cudnn".
struct Library {
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) get_error_string = nullptr;
  decltype(&cudnnGetLastErrorString) get_last_error_string = nullptr;
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  /// Throws CudnnError with the library's last message.
  void check(cudnnStatus_t status, std::string_view call) const;
};

/// The least version that is used: before it gradients of key lengths that are no multiple of 128 need a mask.
inline constexpr size_t kLeastVersion = 91600;

struct FoundLibrary {
  const Library* library = nullptr;  ///< nullptr where it is missing
  std::string missing;               ///< what is, in a sentence
};

/// Opened once in a process, and never closed.
const FoundLibrary& find_library();

}  // namespace tpc::cuda::cudnn
