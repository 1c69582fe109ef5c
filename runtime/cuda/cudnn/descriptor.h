/// Descriptors of cuDNN's backend interface as values that own them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/cuda/cudnn/library.h"

namespace tpc::cuda::cudnn {

/// Attributes are set, then finalize() checks them all. Every function throws CudnnError.
class Descriptor {
 public:
  Descriptor(const Library& library, cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const Library& library() const { return *library_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t name, std::span<const int64_t> values);
  void set(cudnnBackendAttributeName_t name, int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
  void set(cudnnBackendAttributeName_t name, bool value) { set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
  }
  /// `what` is for the message of a failure: "operation matmul".
  void finalize(std::string_view what);

  int64_t get_number(cudnnBackendAttributeName_t name) const;
  /// Descriptors of the given type that the library fills in.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const;

 private:
  const Library* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

}  // namespace tpc::cuda::cudnn
