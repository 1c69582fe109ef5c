// Sums over dimensions, stage by stage, in f32 between.
#include <algorithm>
#include <vector>

#include "compiler/lowering/sum_stages.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/block_reduce.cuh"
#include "runtime/cuda/kernels/column_sums.cuh"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/map_elements.cuh"

namespace tpc::cuda {
namespace {

constexpr unsigned kRowThreads = 256;

// A block sums a chunk of a row: sum number row * chunks + chunk.
template <class X, class Y>
__global__ void __launch_bounds__(kRowThreads)
    sum_rows(const X* x, Y* y, int64_t length, int64_t chunk_length, int64_t chunks) {
  GPU_SHARED(float, warps, kMaxWarps);
  const int64_t row = blockIdx.x / chunks;
  const int64_t begin = blockIdx.x % chunks * chunk_length;
  const X* from = x + row * length + begin;
  float sum = 0;
  for_each_pack_of_row(from, min(chunk_length, length - begin), [&](auto pack, int64_t i) {
    constexpr int kSize = decltype(pack)::kSize;
    const auto values = load_pack<kSize>(from + i);
    // A pack first: shorter chains of additions round less, and wait less for each other.
    float part = 0;
#pragma unroll
    for (int j = 0; j < kSize; ++j) part += to_float(values.values[j]);
    sum += part;
  });
  sum = reduce_block(sum, warps, Sum{});
  if (threadIdx.x == 0) y[blockIdx.x] = from_float<Y>(sum);
}

template <class X, class Y>
void launch_rows(const DeviceQueue& queue, int64_t rows, int64_t length, int64_t chunk, const X* x, Y* y) {
  const int64_t chunks = ceil_div(length, chunk);
  const int64_t wanted = std::clamp<int64_t>(ceil_div(chunk, 512) * 32, 32, kRowThreads);
  launch("sum_rows", sum_rows<X, Y>,
         {.blocks = rows * chunks, .threads = gpu::block_threads(static_cast<unsigned>(wanted))}, queue, x, y, length,
         chunk, chunks);
}

template <class X, class Y>
void launch_stage(const DeviceQueue& queue, const SumStage& stage, const X* x, Y* y) {
  auto* memory = reinterpret_cast<float*>(queue.workspace());
  float* parts = memory + stage.parts_offset;
  const bool is_cut = stage.num_parts() > 1;
  if (stage.inner > 1) {
    const ColumnShape shape = stage.columns();
    if (!is_cut) {
      launch_sum_columns(queue, shape, x, SumTarget<Y>{y});
    } else {
      launch_sum_columns(queue, shape, x, SumTarget<float>{parts});
      launch_sum_columns(queue, whole_columns(1, shape.chunks, stage.num_results()), parts, SumTarget<Y>{y});
    }
  } else if (!is_cut) {
    launch_rows(queue, stage.outer, stage.summed, stage.summed, x, y);
  } else {
    launch_rows(queue, stage.outer, stage.summed, stage.row_chunk(), x, parts);
    launch_rows(queue, stage.outer, stage.num_parts(), stage.num_parts(), parts, y);
  }
}

template <class X, class Y>
void launch_stages(const DeviceQueue& queue, const std::vector<SumStage>& stages, const X* x, Y* y) {
  auto* memory = reinterpret_cast<float*>(queue.workspace());
  const size_t last = stages.size() - 1;
  if (last == 0) return launch_stage(queue, stages[0], x, y);
  launch_stage(queue, stages[0], x, memory + stages[0].result_offset);
  for (size_t i = 1; i < last; ++i) {
    launch_stage(queue, stages[i], memory + stages[i - 1].result_offset, memory + stages[i].result_offset);
  }
  launch_stage(queue, stages[last], memory + stages[last - 1].result_offset, y);
}

struct Identity {
  __device__ __forceinline__ float operator()(float x) const { return x; }
};

}  // namespace

std::unique_ptr<Kernel> prepare_reduce_sum(const LocalStep& step, DeviceQueue& queue) {
  const std::vector<SumStage> stages =
      sum_stages(step.operands[0].region.extents(), step.attributes.get_ints("dims"));
  queue.reserve(sum_workspace(stages) * static_cast<int64_t>(sizeof(float)));
  const int64_t size = step.results[0].region.num_elements();
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    return with_float_type(step.results[0].type.dtype, [&](auto sum) {
      using X = decltype(element);
      using Y = decltype(sum);
      const X* x = data_of<X>(step.operands[0]);
      Y* y = data_of<Y>(step.results[0]);
      return make_kernel([=, &queue] {
        if (stages.empty()) {
          launch_map("reduce_sum", queue, size, Identity{}, y, x);
        } else {
          launch_stages(queue, stages, x, y);
        }
      });
    });
  });
}

}  // namespace tpc::cuda
