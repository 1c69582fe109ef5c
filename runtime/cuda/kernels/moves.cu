// What leaves a rank's elements as they lie, or takes a part of them: local_slice, mask, zero_pad, reshape.
#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/strided_copy.h"
#include "compiler/lowering/region_copy.h"

namespace tpc::cuda {
namespace {

/// All of a tensor, to where it may lie already.
std::unique_ptr<Kernel> make_whole_copy(const LocalTensor& from, const LocalTensor& to, DeviceQueue& queue) {
  const auto bytes = static_cast<size_t>(to.num_bytes());
  TPC_CHECK(from.num_bytes() == to.num_bytes(), "a copy of {} bytes to {}", from.num_bytes(), bytes);
  return make_kernel([=, &queue, source = from.data, destination = to.data] {
    if (source == destination || bytes == 0) return;
    TPC_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, queue.stream()));
  });
}

void set_zero(const LocalTensor& tensor, const DeviceQueue& queue) {
  if (tensor.num_bytes() == 0) return;
  TPC_CUDA(cudaMemsetAsync(tensor.data, 0, static_cast<size_t>(tensor.num_bytes()), queue.stream()));
}

/// The elements that two parts of one tensor share.
StridedCopy shared_elements(const LocalTensor& from, const LocalTensor& to) {
  const Region shared = intersection(from.region, to.region);
  // An empty region maps to nothing.
  if (shared.num_elements() == 0) return StridedCopy(shared, {}, {}, byte_size(to.type.dtype));
  return StridedCopy(shared, trailing_map(from.region, shared), trailing_map(to.region, shared),
                     byte_size(to.type.dtype));
}

}  // namespace

std::unique_ptr<Kernel> prepare_local_slice(const LocalStep& step, DeviceQueue& queue) {
  const LocalTensor& x = step.operands[0];
  const LocalTensor& y = step.results[0];
  return make_kernel([=, &queue, copy = shared_elements(x, y)] { copy.launch(queue, x.data, y.data); });
}

std::unique_ptr<Kernel> prepare_zero_pad(const LocalStep& step, DeviceQueue& queue) {
  const LocalTensor& x = step.operands[0];
  const LocalTensor& y = step.results[0];
  return make_kernel([=, &queue, copy = shared_elements(x, y)] {
    set_zero(y, queue);
    copy.launch(queue, x.data, y.data);
  });
}

std::unique_ptr<Kernel> prepare_mask(const LocalStep& step, DeviceQueue& queue) {
  const LocalTensor& y = step.results[0];
  if (step.is_first_in_group) return make_whole_copy(step.operands[0], y, queue);
  return make_kernel([=, &queue] { set_zero(y, queue); });
}

// Placements split a group of merged dimensions at its outermost one only, so the local elements keep their order.
std::unique_ptr<Kernel> prepare_reshape(const LocalStep& step, DeviceQueue& queue) {
  return make_whole_copy(step.operands[0], step.results[0], queue);
}

}  // namespace tpc::cuda
