// Rows of a table: a block a token.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 128;

// The table's rows are those of ids [first, first + rows).
// Rows are read in packs of T.
template <class T, class U>
__global__ void __launch_bounds__(kThreads)
    embedding(const int32_t* ids, const T* table, int64_t first, int64_t rows, int64_t width, bool packed, U* y) {
  const int64_t row = ids[blockIdx.x] - first;
  const bool is_held = row >= 0 && row < rows;
  const T* from = table + (is_held ? row : 0) * width;
  U* to = y + blockIdx.x * width;
  for_each_pack<kPackSize<T>>(0, width, packed, [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    float values[kSize] = {};
    if (is_held) {
      const auto row_values = load_pack<kSize>(from + i);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = to_float(row_values.values[j]);
    }
    store_floats(to + i, values);
  });
}

template <class T, class U>
std::unique_ptr<Kernel> make_embedding(const LocalStep& step, DeviceQueue& queue) {
  const Interval v = step.operands[1].region.dims[0];
  const int64_t tokens = step.operands[0].region.num_elements();
  const int64_t width = step.operands[1].region.num_elements() / v.size();
  const int32_t* ids = step.operands[0].i32();
  const T* table = data_of<T>(step.operands[1]);
  U* y = data_of<U>(step.results[0]);
  const bool packed = width % kPackSize<T> == 0 && is_pack_aligned(table) && is_pack_aligned(y);
  return make_kernel([=, &queue] {
    launch("embedding", embedding<T, U>, {.blocks = tokens, .threads = gpu::block_threads(kThreads)}, queue, ids, table,
           v.begin, v.size(), width, packed, y);
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_embedding(const LocalStep& step, DeviceQueue& queue) {
  return with_float_type(step.operands[1].type.dtype, [&](auto element) {
    using T = decltype(element);
    // Parts of a sum may be wanted unrounded.
    return step.results[0].type.dtype == DType::kF32 ? make_embedding<T, float>(step, queue)
                                                     : make_embedding<T, T>(step, queue);
  });
}

}  // namespace tpc::cuda
