#include "runtime/cuda/cudnn/descriptor.h"

#include <fmt/format.h>

#include <utility>

namespace tpc::cuda::cudnn {

Descriptor::Descriptor(const Library& library, cudnnBackendDescriptorType_t type) : library_(&library) {
  library.check(library.create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) static_cast<void>(library_->destroy_descriptor(descriptor_));
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : library_(other.library_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                     const void* values) {
  cudnnStatus_t status = library_->set_attribute(descriptor_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    library_->check(status, fmt::format("cudnnBackendSetAttribute of attribute {}", static_cast<int>(name)));
  }
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
  set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
}

void Descriptor::finalize(std::string_view what) {
  cudnnStatus_t status = library_->finalize(descriptor_);
  if (status != CUDNN_STATUS_SUCCESS) library_->check(status, fmt::format("cudnnBackendFinalize of the {}", what));
}

int64_t Descriptor::get_number(cudnnBackendAttributeName_t name) const {
  int64_t count = 0;
  int64_t number = 0;
  library_->check(library_->get_attribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &number),
                  "cudnnBackendGetAttribute");
  return number;
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
  int64_t count = 0;
  library_->check(library_->get_attribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                  "cudnnBackendGetAttribute");
  std::vector<Descriptor> found;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) handles.push_back(found.emplace_back(*library_, type).get());
  library_->check(
      library_->get_attribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
      "cudnnBackendGetAttribute");
  found.erase(found.begin() + count, found.end());
  return found;
}

}  // namespace tpc::cuda::cudnn
