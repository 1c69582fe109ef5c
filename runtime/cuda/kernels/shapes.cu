// Ops that move elements within one tensor or repeat them: transpose, broadcast_to, slice, pad, concat.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/strided_copy.h"

namespace tpc::cuda {
namespace {

int64_t element_bytes(const LocalTensor& tensor) { return byte_size(tensor.type.dtype); }

std::unique_ptr<Kernel> make_copy(const LocalStep& step, DeviceQueue& queue, const Region& loop, const IndexMap& from,
                                  const IndexMap& to) {
  const LocalTensor& x = step.operands[0];
  const LocalTensor& y = step.results[0];
  TPC_CHECK(x.type.dtype == y.type.dtype, "\"{}\" copies {} to {}", step.name, to_string(x.type), to_string(y.type));
  return make_kernel([copy = StridedCopy(loop, from, to, element_bytes(x)), from = x.data, to = y.data, &queue] {
    copy.launch(queue, from, to);
  });
}

/// `small` holds indices [start, start + its size) of dimension `dim` of `large`, and lacks the dimension when its rank
/// is one less.
struct RangeMaps {
  Region loop;
  IndexMap of_large;
  IndexMap of_small;

  RangeMaps(const Region& large, const Region& small, const Attributes& attributes) : loop(small) {
    const size_t dim = static_cast<size_t>(attributes.get_int("dim"));
    if (small.dims.size() < large.dims.size()) {
      loop.dims.insert(loop.dims.begin() + static_cast<std::ptrdiff_t>(dim), Interval{0, 1});
    }
    of_large = trailing_map(shifted(large, dim, -attributes.get_int("start")), loop);
    of_small = trailing_map(loop, loop);
  }
};

}  // namespace

std::unique_ptr<Kernel> prepare_transpose(const LocalStep& step, DeviceQueue& queue) {
  const std::vector<int64_t>& permutation = step.attributes.get_ints("permutation");
  const Region& region = step.results[0].region;
  std::vector<int64_t> loop_dims(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    loop_dims[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return make_copy(step, queue, region, index_map(step.operands[0].region, loop_dims, region),
                   trailing_map(region, region));
}

std::unique_ptr<Kernel> prepare_broadcast_to(const LocalStep& step, DeviceQueue& queue) {
  const std::vector<int64_t>& added = step.attributes.get_ints("dims");
  const Region& region = step.results[0].region;
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(region.dims.size()); ++d) {
    if (!std::ranges::binary_search(added, d)) kept.push_back(d);
  }
  return make_copy(step, queue, region, index_map(step.operands[0].region, kept, region), trailing_map(region, region));
}

std::unique_ptr<Kernel> prepare_slice(const LocalStep& step, DeviceQueue& queue) {
  const RangeMaps maps(step.operands[0].region, step.results[0].region, step.attributes);
  return make_copy(step, queue, maps.loop, maps.of_large, maps.of_small);
}

std::unique_ptr<Kernel> prepare_pad(const LocalStep& step, DeviceQueue& queue) {
  const RangeMaps maps(step.results[0].region, step.operands[0].region, step.attributes);
  std::unique_ptr<Kernel> copy = make_copy(step, queue, maps.loop, maps.of_small, maps.of_large);
  const LocalTensor& y = step.results[0];
  const size_t bytes = static_cast<size_t>(y.region.num_elements() * element_bytes(y));
  return make_kernel([copy = std::move(copy), to = y.data, bytes, &queue] {
    TPC_CUDA(cudaMemsetAsync(to, 0, bytes, queue.stream()));
    copy->run({});
  });
}

std::unique_ptr<Kernel> prepare_concat(const LocalStep& step, DeviceQueue& queue) {
  const size_t dim = static_cast<size_t>(step.attributes.get_int("dim"));
  const bool is_stack = step.attributes.get_bool("stack");
  const LocalTensor& y = step.results[0];
  std::vector<std::pair<StridedCopy, const void*>> copies;
  int64_t start = 0;
  for (const LocalTensor& x : step.operands) {
    TPC_CHECK(x.type.dtype == y.type.dtype, "\"{}\" copies {} to {}", step.name, to_string(x.type), to_string(y.type));
    Region part = x.region;
    if (is_stack) part.dims.insert(part.dims.begin() + static_cast<std::ptrdiff_t>(dim), Interval{0, 1});
    const Region held = shifted(part, dim, start);
    start += is_stack ? 1 : x.type.shape[dim];
    copies.emplace_back(StridedCopy(held, trailing_map(held, held), trailing_map(y.region, held), element_bytes(x)),
                        x.data);
  }
  return make_kernel([copies = std::move(copies), to = y.data, &queue] {
    for (const auto& [copy, from] : copies) copy.launch(queue, from, to);
  });
}

}  // namespace tpc::cuda
