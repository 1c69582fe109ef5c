/// Tiles of queries, keys and values in shared memory, and their products: what attention and its gradient share.
///
/// The block's 256 threads form 16 rows of 16. A thread's part of a product of two tiles is kMicro x kMicro scores: of
/// rows kMicro * thread_row() + i and columns thread_column() + 16 * j; its part of a product with a tile's elements is
/// kMicro rows and, of every 64 columns, the four from 4 * thread_column().
#pragma once

#include "runtime/attention_heads.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {

constexpr int kSide = 16;
constexpr unsigned kTileThreads = kSide * kSide;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

/// Floats from one row of a tile to the next: 16 bytes more than the row, so that the rows which neighbouring threads
/// read lie in different banks.
template <int kHeadDim>
constexpr int kTileStride = kHeadDim + 4;
/// The same for a tile of scores of `kRows` columns.
template <int kRows>
constexpr int kScoreStride = kRows + 4;

__device__ __forceinline__ int thread_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ __forceinline__ int thread_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// Keys that local query i sees.
__device__ __forceinline__ int num_seen(const AttentionHeads& heads, int64_t i) {
  return static_cast<int>(heads.causal ? min(heads.keys, i + heads.first_limit) : heads.keys);
}
/// Elements from a query or a key of a head to the next one.
__device__ __forceinline__ int query_stride(const AttentionHeads& heads) {
  return static_cast<int>(heads.heads * heads.head_dim);
}
__device__ __forceinline__ int key_stride(const AttentionHeads& heads) {
  return static_cast<int>(heads.kv_heads * heads.head_dim);
}
/// Rows of a tile that begins at row `first` of `count`.
template <int kRows>
__device__ __forceinline__ int rows_of_tile(int64_t first, int64_t count) {
  return static_cast<int>(min(static_cast<int64_t>(kRows), count - first));
}

__device__ __forceinline__ int64_t query_offset(const AttentionHeads& heads, int64_t b, int64_t i, int64_t head) {
  return ((b * heads.queries + i) * heads.heads + head) * heads.head_dim;
}
__device__ __forceinline__ int64_t key_offset(const AttentionHeads& heads, int64_t b, int64_t t, int64_t kv_head) {
  return ((b * heads.keys + t) * heads.kv_heads + kv_head) * heads.head_dim;
}

template <int N, int kRows, int kHeadDim, class T>
__device__ __forceinline__ void load_tile_packs(const T* from, int stride, int rows, int head_dim, float* tile) {
  // A thread stays in its column: only one address is to be kept for all of its rows.
  constexpr int kPacks = kHeadDim / N;
  constexpr int kRowStep = static_cast<int>(kTileThreads) / kPacks;
  const int column = static_cast<int>(threadIdx.x) % kPacks * N;
  const int first_row = static_cast<int>(threadIdx.x) / kPacks;
  from += static_cast<int64_t>(first_row) * stride + column;
  tile += first_row * kTileStride<kHeadDim> + column;
  // So many loads are under way at once, besides what the thread holds in registers.
#pragma unroll 4
  for (int row = first_row; row < kRows; row += kRowStep) {
    float values[N] = {};
    if (row < rows && column < head_dim) {
      const auto pack = load_pack<N>(from);
#pragma unroll
      for (int j = 0; j < N; ++j) values[j] = to_float(pack.values[j]);
    }
    store_floats(tile, values);
    from += static_cast<int64_t>(kRowStep) * stride;
    tile += kRowStep * kTileStride<kHeadDim>;
  }
}

/// Copies `rows` rows of head_dim elements, `stride` apart; the rest of the tile is 0. `packed`: rows are whole packs.
template <int kRows, int kHeadDim, class T>
__device__ __forceinline__ void load_tile(const T* from, int stride, int rows, int head_dim, bool packed, float* tile) {
  if (packed) {
    load_tile_packs<kPackSize<T>, kRows, kHeadDim>(from, stride, rows, head_dim, tile);
  } else {
    load_tile_packs<1, kRows, kHeadDim>(from, stride, rows, head_dim, tile);
  }
}

/// sums[i][j] += row of a times row of b, over the first head_dim elements (rounded up to fours: those behind are 0).
template <int kMicro, int kHeadDim>
__device__ __forceinline__ void add_products(const float* a, const float* b, int head_dim,
                                             float (&sums)[kMicro][kMicro]) {
  const float* a_rows = a + thread_row() * kMicro * kTileStride<kHeadDim>;
  const float* b_rows = b + thread_column() * kTileStride<kHeadDim>;
  for (int d = 0; d < head_dim; d += 4) {
    Pack<float, 4> x[kMicro];
    Pack<float, 4> y[kMicro];
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
      x[i] = load_pack<4>(a_rows + i * kTileStride<kHeadDim> + d);
      y[i] = load_pack<4>(b_rows + i * kSide * kTileStride<kHeadDim> + d);
    }
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
#pragma unroll
        for (int l = 0; l < 4; ++l) sums[i][j] += x[i].values[l] * y[j].values[l];
      }
    }
  }
}

/// A thread's part of rows of head_dim elements.
template <int kMicro, int kHeadDim>
using RowSums = float[kMicro][kHeadDim / kSide];

/// sums[i] += weights[i] * the row of a tile that this pointer stands in.
template <int kMicro, int kHeadDim>
__device__ __forceinline__ void add_weighted_row(const float (&weights)[kMicro], const float* row,
                                                 RowSums<kMicro, kHeadDim>& sums) {
#pragma unroll
  for (int j = 0; j < kHeadDim / 64; ++j) {
    const auto values = load_pack<4>(row + 64 * j + 4 * thread_column());
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
#pragma unroll
      for (int l = 0; l < 4; ++l) sums[i][4 * j + l] += weights[i] * values.values[l];
    }
  }
}

/// sums[i] += sum over k of scores[row i][k] * tile[k]; both tiles have kRows rows.
template <int kMicro, int kHeadDim>
__device__ __forceinline__ void add_weighted_rows(const float* scores, const float* tile,
                                                  RowSums<kMicro, kHeadDim>& sums) {
  constexpr int kRows = kMicro * kSide;
  const float* score_rows = scores + thread_row() * kMicro * kScoreStride<kRows>;
  for (int k = 0; k < kRows; k += 4) {
    Pack<float, 4> weights[kMicro];
#pragma unroll
    for (int i = 0; i < kMicro; ++i) weights[i] = load_pack<4>(score_rows + i * kScoreStride<kRows> + k);
#pragma unroll
    for (int l = 0; l < 4; ++l) {
      float of_row[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) of_row[i] = weights[i].values[l];
      add_weighted_row<kMicro, kHeadDim>(of_row, tile + (k + l) * kTileStride<kHeadDim>, sums);
    }
  }
}

/// sums[i] += sum over k of scores[k][column i] * tile[k], where columns of scores go by threads as rows do else.
template <int kMicro, int kHeadDim>
__device__ __forceinline__ void add_transposed_weighted_rows(const float* scores, const float* tile,
                                                             RowSums<kMicro, kHeadDim>& sums) {
  constexpr int kRows = kMicro * kSide;
  const float* score_columns = scores + thread_row() * kMicro;
#pragma unroll 4
  for (int k = 0; k < kRows; ++k) {
    const auto weights = load_pack<kMicro>(score_columns + k * kScoreStride<kRows>);
    add_weighted_row<kMicro, kHeadDim>(weights.values, tile + k * kTileStride<kHeadDim>, sums);
  }
}

/// Puts a thread's scores into a tile of them.
template <int kMicro>
__device__ __forceinline__ void store_scores(const float (&scores)[kMicro][kMicro], float* tile) {
  constexpr int kStride = kScoreStride<kMicro * kSide>;
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      tile[(thread_row() * kMicro + i) * kStride + thread_column() + kSide * j] = scores[i][j];
    }
  }
}

/// Writes the first `rows` rows of head_dim elements, `stride` apart.
template <int kMicro, int kHeadDim, class T>
__device__ __forceinline__ void store_rows(const RowSums<kMicro, kHeadDim>& sums, T* to, int stride, int rows,
                                           int head_dim, bool packed) {
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const int row = thread_row() * kMicro + i;
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kHeadDim / 64; ++j) {
      const int column = 64 * j + 4 * thread_column();
      T* at = to + static_cast<int64_t>(row) * stride + column;
      if (packed) {
        Pack<T, 4> values;
#pragma unroll
        for (int l = 0; l < 4; ++l) values.values[l] = from_float<T>(sums[i][4 * j + l]);
        if (column < head_dim) store_pack(at, values);
      } else {
#pragma unroll
        for (int l = 0; l < 4; ++l) {
          if (column + l < head_dim) at[l] = from_float<T>(sums[i][4 * j + l]);
        }
      }
    }
  }
}

}  // namespace tpc::cuda
