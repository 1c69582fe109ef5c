// Gradient of a table of rows. A block sums, in shared memory, a few columns of a few rows of the table: it looks at
// all tokens in order and adds those that are its rows'. So every element of the table is written once, the sums are
// the same in every run, and what each block reads besides its tokens' gradients is 4 bytes a token, from the cache.
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {
namespace {

// A thread a column.
constexpr int kColumns = 128;
constexpr int kRows = 64;
// Ids that are looked at between two barriers: a word of votes for each warp and round.
constexpr int kRounds = 4;
constexpr int kIds = kRounds * kColumns;
constexpr int kWords = kIds / 32;
// Gradients that are under way at once.
constexpr int kLoads = 4;

struct TableShape {
  int64_t tokens;
  int64_t first_row;  // of the table's part that this rank holds
  int64_t rows;
  int64_t width;
  int64_t column_blocks;
};

template <class T>
__global__ void __launch_bounds__(kColumns)
    embedding_grad(const int32_t* ids, const T* dy, float* dtable, TableShape shape) {
  GPU_SHARED(float, sums, kRows* kColumns);
  // Two of each: one is filled while slower threads still read the other.
  GPU_SHARED(uint32_t, words, 2 * kWords);
  GPU_SHARED(uint8_t, rows, 2 * kIds);
  const int64_t first_row = blockIdx.x / shape.column_blocks * kRows;
  const int64_t column = blockIdx.x % shape.column_blocks * kColumns + threadIdx.x;
  const int num_rows = static_cast<int>(min(static_cast<int64_t>(kRows), shape.rows - first_row));
  const bool has_column = column < shape.width;
  const int32_t first_id = static_cast<int32_t>(shape.first_row + first_row);

  for (int row = 0; row < kRows; ++row) sums[row * kColumns + threadIdx.x] = 0.0f;
  for (int64_t first = 0, turn = 0; first < shape.tokens; first += kIds, turn ^= 1) {
    uint32_t* turn_words = words + turn * kWords;
    uint8_t* turn_rows = rows + turn * kIds;
    bool any = false;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int place = round * kColumns + threadIdx.x;
      const int64_t token = first + place;
      // Unsigned: an id below the block's rows is a large one.
      const uint32_t row =
          token < shape.tokens ? static_cast<uint32_t>(ids[token]) - static_cast<uint32_t>(first_id) : ~0u;
      const bool is_here = row < static_cast<uint32_t>(num_rows);
      if (is_here) turn_rows[place] = static_cast<uint8_t>(row);
      const unsigned votes = __ballot_sync(~0u, is_here);
      if (threadIdx.x % 32 == 0) turn_words[place / 32] = votes;
      any = any || is_here;
    }
    if (!__syncthreads_or(any)) continue;
    for (int word = 0; word < kWords; ++word) {
      uint32_t rest = turn_words[word];
      while (rest != 0) {
        int row[kLoads];
        float grad[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          row[i] = -1;
          grad[i] = 0;
          if (rest == 0) continue;
          const int place = 32 * word + __ffs(static_cast<int>(rest)) - 1;
          rest &= rest - 1;
          row[i] = turn_rows[place];
          if (has_column) grad[i] = to_float(dy[(first + place) * shape.width + column]);
        }
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          if (row[i] >= 0) sums[row[i] * kColumns + threadIdx.x] += grad[i];
        }
      }
    }
  }
  if (!has_column) return;
  for (int row = 0; row < num_rows; ++row) {
    dtable[(first_row + row) * shape.width + column] = sums[row * kColumns + threadIdx.x];
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_embedding_grad(const LocalStep& step, DeviceQueue& queue) {
  const Interval v = step.results[0].region.dims[0];
  const int64_t width = step.results[0].region.num_elements() / v.size();
  const TableShape shape = {.tokens = step.operands[0].region.num_elements(),
                            .first_row = v.begin,
                            .rows = v.size(),
                            .width = width,
                            .column_blocks = ceil_div(width, kColumns)};
  const int32_t* ids = step.operands[0].i32();
  float* dtable = data_of<float>(step.results[0]);
  return with_float_type(step.operands[1].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* dy = data_of<T>(step.operands[1]);
    return make_kernel([=, &queue] {
      launch("embedding_grad", embedding_grad<T>,
             {.blocks = ceil_div(shape.rows, kRows) * shape.column_blocks, .threads = kColumns}, queue, ids, dy, dtable,
             shape);
    });
  });
}

}  // namespace tpc::cuda
