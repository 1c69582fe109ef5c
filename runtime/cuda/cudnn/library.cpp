#include "runtime/cuda/cudnn/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace tpc::cuda::cudnn {
namespace {

constexpr const char* kFile = "libcudnn.so.9";

// "9.19.0" of 91900.
std::string version_text(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

FoundLibrary open_library() {
  void* file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return {nullptr, fmt::format("{} cannot be opened: {}", kFile, dlerror())};
  static Library library;
  std::string missing;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
    if (function == nullptr && missing.empty()) missing = fmt::format("{} has no {}", kFile, name);
  };
  find(library.get_version, "cudnnGetVersion");
  find(library.get_error_string, "cudnnGetErrorString");
  find(library.get_last_error_string, "cudnnGetLastErrorString");
  find(library.create, "cudnnCreate");
  find(library.destroy, "cudnnDestroy");
  find(library.set_stream, "cudnnSetStream");
  find(library.create_descriptor, "cudnnBackendCreateDescriptor");
  find(library.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(library.set_attribute, "cudnnBackendSetAttribute");
  find(library.get_attribute, "cudnnBackendGetAttribute");
  find(library.finalize, "cudnnBackendFinalize");
  find(library.execute, "cudnnBackendExecute");
  if (!missing.empty()) return {nullptr, missing};
  size_t version = library.get_version();
  if (version < kLeastVersion) {
    return {nullptr, fmt::format("cuDNN {} is older than {}", version_text(version), version_text(kLeastVersion))};
  }
  return {&library, ""};
}

}  // namespace

bool CudnnError::is_refusal() const {
  // 2xxx: a parameter that this version does not take; 3xxx: not supported.
  return status_ >= CUDNN_STATUS_BAD_PARAM && status_ < CUDNN_STATUS_INTERNAL_ERROR;
}

void Library::check(cudnnStatus_t status, std::string_view call) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> last = {};
  get_last_error_string(last.data(), last.size());
  std::string message = fmt::format("{} failed: {}", call, get_error_string(status));
  if (last[0] != '\0') message += fmt::format(" ({})", last.data());
  throw CudnnError(status, message);
}

const FoundLibrary& find_library() {
  static const FoundLibrary kFound = open_library();
  return kFound;
}

}  // namespace tpc::cuda::cudnn
