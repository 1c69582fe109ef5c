// Sums over dimensions. Neighbouring dimensions that are all kept or all summed are one; what is left is summed group
// by group from the last, each as the middle of [outer, summed, inner], in f32 between.
#include <algorithm>
#include <utility>
#include <vector>

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
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum += to_float(values.values[j]);
  });
  sum = reduce_block(sum, warps, Sum{});
  if (threadIdx.x == 0) y[blockIdx.x] = from_float<Y>(sum);
}

struct DimGroup {
  int64_t size = 1;
  bool is_summed = false;
};

void append(std::vector<DimGroup>& groups, const DimGroup& next) {
  if (groups.empty() || groups.back().is_summed != next.is_summed) {
    groups.push_back(next);
  } else {
    groups.back().size *= next.size;
  }
}

std::vector<DimGroup> group_dims(const Shape& shape, const std::vector<int64_t>& summed) {
  std::vector<DimGroup> groups;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) append(groups, {shape[d], std::ranges::binary_search(summed, static_cast<int64_t>(d))});
  }
  return groups;
}

int64_t product(std::span<const DimGroup> groups) {
  int64_t size = 1;
  for (const DimGroup& group : groups) size *= group.size;
  return size;
}

/// One group's sum, with the sums of its parts where it is cut. Offsets count floats of the working memory.
struct Stage {
  int64_t outer = 1;
  int64_t summed = 1;
  int64_t inner = 1;
  int64_t parts_offset = 0;
  int64_t result_offset = 0;

  int64_t num_results() const { return outer * inner; }
  ColumnShape columns() const { return chunked_columns(outer, summed, inner); }
  int64_t row_chunk() const {
    constexpr int64_t kWantedBlocks = 512;
    constexpr int64_t kMinChunk = 4096;
    return std::min(summed, std::max(kMinChunk, ceil_div(summed, ceil_div(kWantedBlocks, outer))));
  }
  int64_t num_parts() const { return inner > 1 ? columns().chunks : ceil_div(summed, row_chunk()); }
};

std::vector<Stage> stages_of(std::vector<DimGroup> groups) {
  std::vector<Stage> stages;
  int64_t offset = 0;
  while (true) {
    const auto last = std::find_if(groups.rbegin(), groups.rend(), [](const DimGroup& g) { return g.is_summed; });
    if (last == groups.rend()) return stages;
    const size_t index = static_cast<size_t>(groups.rend() - last) - 1;
    const std::span<const DimGroup> all(groups);
    Stage stage{product(all.first(index)), last->size, product(all.subspan(index + 1)), 0, 0};
    stage.parts_offset = offset;
    offset += stage.num_parts() > 1 ? stage.num_parts() * stage.num_results() : 0;
    stage.result_offset = offset;
    offset += stage.num_results();
    stages.push_back(stage);
    std::vector<DimGroup> left;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i != index) append(left, groups[i]);
    }
    groups = std::move(left);
  }
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
void launch_stage(const DeviceQueue& queue, const Stage& stage, const X* x, Y* y) {
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
void launch_stages(const DeviceQueue& queue, const std::vector<Stage>& stages, const X* x, Y* y) {
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
  const std::vector<Stage> stages =
      stages_of(group_dims(step.operands[0].region.extents(), step.attributes.get_ints("dims")));
  if (!stages.empty()) {
    const Stage& last = stages.back();
    queue.reserve((last.result_offset + last.num_results()) * static_cast<int64_t>(sizeof(float)));
  }
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
