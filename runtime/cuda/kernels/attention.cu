// Fused attention: a block of queries of one head goes over the keys they see, a tile at a time, and keeps the running
// maximum and sum of each query; scores are only ever held for one tile (Dao et al. 2022). Arithmetic in float.
#include "runtime/cuda/kernels/attention_shapes.h"
#include "runtime/cuda/kernels/block_reduce.cuh"

namespace tpc::cuda {
namespace {

constexpr int kMicro = 4;
constexpr int kRows = kMicro * kSide;  // queries of a block, keys of a tile

template <int kHeadDim>
constexpr size_t kSharedBytes = (2 * kRows * kTileStride<kHeadDim> + kRows * kScoreStride<kRows>)*sizeof(float);

// lse[b,s,a] and o like q. Blocks that see the most keys come first.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(kTileThreads, kHeadDim <= 128 ? 2 : 1)
    attention(const T* q, const T* k, const T* v, T* o, float* lse, AttentionHeads heads, bool packed) {
  GPU_SHARED_DYN(float, query_tile);
  float* key_tile = query_tile + kRows * kTileStride<kHeadDim>;  // then the values
  float* score_tile = key_tile + kRows * kTileStride<kHeadDim>;

  const int head_dim = static_cast<int>(heads.head_dim);
  const int64_t all_heads = heads.batch * heads.heads;
  const int64_t b = blockIdx.x % all_heads / heads.heads;
  const int64_t head = blockIdx.x % heads.heads;
  const int64_t kv_head = (heads.first_head + head) / heads.group - heads.first_kv_head;
  const int64_t first_query = ((heads.queries - 1) / kRows - blockIdx.x / all_heads) * kRows;
  const int queries = rows_of_tile<kRows>(first_query, heads.queries);
  const int keys = num_seen(heads, first_query + queries - 1);
  const int64_t first_element = query_offset(heads, b, first_query, head);
  load_tile<kRows, kHeadDim>(q + first_element, query_stride(heads), queries, head_dim, packed, query_tile);

  // Of the scores in units of log 2. A thread has its own keys' part of the sum.
  float maxima[kMicro];
  float sums[kMicro] = {};
  RowSums<kMicro, kHeadDim> outputs = {};
#pragma unroll
  for (int i = 0; i < kMicro; ++i) maxima[i] = -INFINITY;
  const float scale = heads.scale * kLog2E;

  for (int first_key = 0; first_key < keys; first_key += kRows) {
    const int64_t first_key_element = key_offset(heads, b, first_key, kv_head);
    __syncthreads();
    load_tile<kRows, kHeadDim>(k + first_key_element, key_stride(heads), keys - first_key, head_dim, packed, key_tile);
    __syncthreads();
    float scores[kMicro][kMicro] = {};
    add_products<kMicro, kHeadDim>(query_tile, key_tile, head_dim, scores);
    __syncthreads();
    load_tile<kRows, kHeadDim>(v + first_key_element, key_stride(heads), keys - first_key, head_dim, packed, key_tile);

#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
      // Every query sees the first key, so that no maximum stays infinite.
      const int seen = num_seen(heads, first_query + thread_row() * kMicro + i) - first_key;
      float largest = maxima[i];
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        const bool is_seen = thread_column() + kSide * j < seen;
        scores[i][j] = is_seen ? scores[i][j] * scale : -INFINITY;
        largest = fmaxf(largest, scores[i][j]);
      }
      largest = reduce_lanes<kSide>(largest, Maximum{});
      const float factor = exp2f(maxima[i] - largest);
      maxima[i] = largest;
      sums[i] *= factor;
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        scores[i][j] = exp2f(scores[i][j] - largest);
        sums[i] += scores[i][j];
      }
#pragma unroll
      for (int j = 0; j < kHeadDim / kSide; ++j) outputs[i][j] *= factor;
    }
    store_scores<kMicro>(scores, score_tile);
    __syncthreads();
    add_weighted_rows<kMicro, kHeadDim>(score_tile, key_tile, outputs);
  }

#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const float sum = reduce_lanes<kSide>(sums[i], Sum{});
    const int row = thread_row() * kMicro + i;
    if (thread_column() == 0 && row < queries) {
      lse[(b * heads.queries + first_query + row) * heads.heads + head] = (maxima[i] + log2f(sum)) * kLn2;
    }
#pragma unroll
    for (int j = 0; j < kHeadDim / kSide; ++j) outputs[i][j] /= sum;
  }
  store_rows<kMicro, kHeadDim>(outputs, o + first_element, query_stride(heads), queries, head_dim, packed);
}

}  // namespace

std::unique_ptr<Kernel> prepare_attention(const LocalStep& step, DeviceQueue& queue) {
  const AttentionHeads heads(step.attributes, step.operands[0], step.operands[1]);
  const int64_t blocks = ceil_div(heads.queries, kRows) * heads.batch * heads.heads;
  float* lse = data_of<float>(step.results[1]);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* q = data_of<T>(step.operands[0]);
    const T* k = data_of<T>(step.operands[1]);
    const T* v = data_of<T>(step.operands[2]);
    T* o = data_of<T>(step.results[0]);
    const bool packed = are_heads_packed<T>(heads.head_dim, {q, k, v, o});
    return with_head_dim(step, heads.head_dim, [&](auto head_dim) {
      constexpr int kHeadDim = decltype(head_dim)::kSize;
      TPC_CUDA(gpu::allow_shared(attention<T, kHeadDim>, kSharedBytes<kHeadDim>));
      return make_kernel([=, &queue] {
        launch("attention", attention<T, kHeadDim>,
               {.blocks = blocks, .threads = kTileThreads, .shared_bytes = kSharedBytes<kHeadDim>}, queue, q, k, v, o,
               lse, heads, packed);
      });
    });
  });
}

}  // namespace tpc::cuda
