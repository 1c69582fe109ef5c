// Gradient of attention. Probabilities are computed again from the log-sum-exp, a tile at a time, twice: by blocks of
// keys, which sum dk and dv over the queries of all their heads, and by blocks of queries, which sum dq over the keys.
// So every sum is one block's, in a fixed order. Arithmetic in float.
#include "runtime/cuda/kernels/attention_shapes.h"
#include "runtime/cuda/kernels/block_reduce.cuh"

namespace tpc::cuda {
namespace {

constexpr unsigned kDotThreads = 256;

// Two tiles of keys and two of queries must fit into the shared memory.
template <int kHeadDim>
constexpr int kMicroOf = kHeadDim <= 128 ? 4 : 2;
template <int kHeadDim>
constexpr int kRowsOf = kMicroOf<kHeadDim>* kSide;

template <int kHeadDim>
constexpr size_t shared_bytes(size_t score_tiles) {
  constexpr size_t kRows = kRowsOf<kHeadDim>;
  return (4 * kRows * kTileStride<kHeadDim> + score_tiles * kRows * kScoreStride<kRowsOf<kHeadDim>>)*sizeof(float);
}
template <int kHeadDim>
constexpr size_t kKeySharedBytes = shared_bytes<kHeadDim>(2);
template <int kHeadDim>
constexpr size_t kQuerySharedBytes = shared_bytes<kHeadDim>(1);

template <int kHeadDim>
constexpr int kBlocksOfSm = kHeadDim <= 64 ? 2 : 1;

/// Operands, and `dots`: sum over d of grad * o, like lse.
template <class T>
struct AttentionGradInputs {
  const T* grad;
  const T* q;
  const T* k;
  const T* v;
  const T* o;
  const float* lse;
  float* dots = nullptr;
  bool packed = false;
};

// A warp a query and head.
template <class T>
__global__ void __launch_bounds__(kDotThreads)
    attention_grad_dots(const T* grad, const T* o, float* dots, int64_t rows, int64_t head_dim) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  float sum = 0;
  for (int64_t d = threadIdx.x % 32; d < head_dim; d += 32) {
    sum += to_float(grad[row * head_dim + d]) * to_float(o[row * head_dim + d]);
  }
  sum = reduce_lanes<32>(sum, Sum{});
  if (threadIdx.x % 32 == 0) dots[row] = sum;
}

/// A thread's probabilities p and score gradients ds = scale * p * (grad v' - dot) of a tile of queries and one of
/// keys; 0 where a query does not see the key.
template <int kMicro, int kHeadDim, class T>
__device__ __forceinline__ void differentiate_scores(const AttentionGradInputs<T>& in, const AttentionHeads& heads,
                                                     int64_t b, int64_t head, int64_t first_query, int64_t first_key,
                                                     const float* query_tile, const float* grad_tile,
                                                     const float* key_tile, const float* value_tile,
                                                     float (&p)[kMicro][kMicro], float (&ds)[kMicro][kMicro]) {
  const int head_dim = static_cast<int>(heads.head_dim);
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
#pragma unroll
    for (int j = 0; j < kMicro; ++j) p[i][j] = ds[i][j] = 0.0f;
  }
  add_products<kMicro, kHeadDim>(query_tile, key_tile, head_dim, p);
  add_products<kMicro, kHeadDim>(grad_tile, value_tile, head_dim, ds);
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const int64_t query = first_query + thread_row() * kMicro + i;
    const bool is_query = query < heads.queries;
    const int64_t seen = is_query ? num_seen(heads, query) - first_key : 0;
    const int64_t row = (b * heads.queries + query) * heads.heads + head;
    const float lse = is_query ? in.lse[row] * kLog2E : 0.0f;
    const float dot = is_query ? in.dots[row] : 0.0f;
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      const bool is_seen = thread_column() + kSide * j < seen;
      p[i][j] = is_seen ? exp2f(p[i][j] * (heads.scale * kLog2E) - lse) : 0.0f;
      ds[i][j] = p[i][j] * (ds[i][j] - dot) * heads.scale;
    }
  }
}

// dk and dv of a tile of keys. Blocks that are seen by the most queries come first.
template <class T, class U, int kHeadDim>
__global__ void __launch_bounds__(kTileThreads, kBlocksOfSm<kHeadDim>)
    attention_grad_keys(AttentionGradInputs<T> in, U* dk, U* dv, AttentionHeads heads) {
  constexpr int kMicro = kMicroOf<kHeadDim>;
  constexpr int kRows = kRowsOf<kHeadDim>;
  constexpr int kTile = kRows * kTileStride<kHeadDim>;
  GPU_SHARED_DYN(float, key_tile);
  float* value_tile = key_tile + kTile;
  float* query_tile = value_tile + kTile;
  float* grad_tile = query_tile + kTile;
  float* p_tile = grad_tile + kTile;
  float* ds_tile = p_tile + kRows * kScoreStride<kRows>;

  const int head_dim = static_cast<int>(heads.head_dim);
  const int64_t all_heads = heads.batch * heads.kv_heads;
  const int64_t b = blockIdx.x % all_heads / heads.kv_heads;
  const int64_t kv_head = blockIdx.x % heads.kv_heads;
  const int64_t first_key = blockIdx.x / all_heads * kRows;
  const int keys = rows_of_tile<kRows>(first_key, heads.keys);
  const int64_t first_element = key_offset(heads, b, first_key, kv_head);
  load_tile<kRows, kHeadDim>(in.k + first_element, key_stride(heads), keys, head_dim, in.packed, key_tile);
  load_tile<kRows, kHeadDim>(in.v + first_element, key_stride(heads), keys, head_dim, in.packed, value_tile);

  RowSums<kMicro, kHeadDim> key_grads = {};
  RowSums<kMicro, kHeadDim> value_grads = {};
  // Query heads of this kv head on this rank, and the first query that sees one of the keys.
  const int64_t group_begin = (heads.first_kv_head + kv_head) * heads.group - heads.first_head;
  const int64_t head_begin = max(static_cast<int64_t>(0), group_begin);
  const int64_t head_end = min(heads.heads, group_begin + heads.group);
  const int64_t query_begin =
      heads.causal ? max(static_cast<int64_t>(0), first_key + 1 - heads.first_limit) / kRows * kRows : 0;
  for (int64_t head = head_begin; head < head_end; ++head) {
    for (int64_t first_query = query_begin; first_query < heads.queries; first_query += kRows) {
      const int queries = rows_of_tile<kRows>(first_query, heads.queries);
      const int64_t from = query_offset(heads, b, first_query, head);
      __syncthreads();
      load_tile<kRows, kHeadDim>(in.q + from, query_stride(heads), queries, head_dim, in.packed, query_tile);
      load_tile<kRows, kHeadDim>(in.grad + from, query_stride(heads), queries, head_dim, in.packed, grad_tile);
      __syncthreads();
      float p[kMicro][kMicro];
      float ds[kMicro][kMicro];
      differentiate_scores<kMicro, kHeadDim>(in, heads, b, head, first_query, first_key, query_tile, grad_tile,
                                             key_tile, value_tile, p, ds);
      store_scores<kMicro>(p, p_tile);
      store_scores<kMicro>(ds, ds_tile);
      __syncthreads();
      add_transposed_weighted_rows<kMicro, kHeadDim>(p_tile, grad_tile, value_grads);
      add_transposed_weighted_rows<kMicro, kHeadDim>(ds_tile, query_tile, key_grads);
    }
  }
  store_rows<kMicro, kHeadDim>(key_grads, dk + first_element, key_stride(heads), keys, head_dim, in.packed);
  store_rows<kMicro, kHeadDim>(value_grads, dv + first_element, key_stride(heads), keys, head_dim, in.packed);
}

// dq of a tile of queries. Blocks that see the most keys come first.
template <class T, int kHeadDim>
__global__ void __launch_bounds__(kTileThreads, kBlocksOfSm<kHeadDim>)
    attention_grad_queries(AttentionGradInputs<T> in, T* dq, AttentionHeads heads) {
  constexpr int kMicro = kMicroOf<kHeadDim>;
  constexpr int kRows = kRowsOf<kHeadDim>;
  constexpr int kTile = kRows * kTileStride<kHeadDim>;
  GPU_SHARED_DYN(float, query_tile);
  float* grad_tile = query_tile + kTile;
  float* key_tile = grad_tile + kTile;
  float* value_tile = key_tile + kTile;
  float* ds_tile = value_tile + kTile;

  const int head_dim = static_cast<int>(heads.head_dim);
  const int64_t all_heads = heads.batch * heads.heads;
  const int64_t b = blockIdx.x % all_heads / heads.heads;
  const int64_t head = blockIdx.x % heads.heads;
  const int64_t kv_head = (heads.first_head + head) / heads.group - heads.first_kv_head;
  const int64_t first_query = ((heads.queries - 1) / kRows - blockIdx.x / all_heads) * kRows;
  const int queries = rows_of_tile<kRows>(first_query, heads.queries);
  const int keys = num_seen(heads, first_query + queries - 1);
  const int64_t first_element = query_offset(heads, b, first_query, head);
  load_tile<kRows, kHeadDim>(in.q + first_element, query_stride(heads), queries, head_dim, in.packed, query_tile);
  load_tile<kRows, kHeadDim>(in.grad + first_element, query_stride(heads), queries, head_dim, in.packed, grad_tile);

  RowSums<kMicro, kHeadDim> query_grads = {};
  for (int first_key = 0; first_key < keys; first_key += kRows) {
    const int64_t from = key_offset(heads, b, first_key, kv_head);
    __syncthreads();
    load_tile<kRows, kHeadDim>(in.k + from, key_stride(heads), keys - first_key, head_dim, in.packed, key_tile);
    load_tile<kRows, kHeadDim>(in.v + from, key_stride(heads), keys - first_key, head_dim, in.packed, value_tile);
    __syncthreads();
    float p[kMicro][kMicro];
    float ds[kMicro][kMicro];
    differentiate_scores<kMicro, kHeadDim>(in, heads, b, head, first_query, first_key, query_tile, grad_tile, key_tile,
                                           value_tile, p, ds);
    store_scores<kMicro>(ds, ds_tile);
    __syncthreads();
    add_weighted_rows<kMicro, kHeadDim>(ds_tile, key_tile, query_grads);
  }
  store_rows<kMicro, kHeadDim>(query_grads, dq + first_element, query_stride(heads), queries, head_dim, in.packed);
}

template <class T, class U, int kHeadDim>
std::unique_ptr<Kernel> make_attention_grad(AttentionGradInputs<T> in, T* dq, U* dk, U* dv, const AttentionHeads& heads,
                                            DeviceQueue& queue) {
  constexpr int kRows = kRowsOf<kHeadDim>;
  TPC_CUDA(gpu::allow_shared(attention_grad_keys<T, U, kHeadDim>, kKeySharedBytes<kHeadDim>));
  TPC_CUDA(gpu::allow_shared(attention_grad_queries<T, kHeadDim>, kQuerySharedBytes<kHeadDim>));
  const int64_t rows = heads.batch * heads.queries * heads.heads;
  queue.reserve(rows * static_cast<int64_t>(sizeof(float)));
  const unsigned dot_threads = gpu::block_threads(kDotThreads);
  const LaunchShape dots = {.blocks = ceil_div(rows * 32, dot_threads), .threads = dot_threads};
  const LaunchShape by_keys = {.blocks = ceil_div(heads.keys, kRows) * heads.batch * heads.kv_heads,
                               .threads = kTileThreads,
                               .shared_bytes = kKeySharedBytes<kHeadDim>};
  const LaunchShape by_queries = {.blocks = ceil_div(heads.queries, kRows) * heads.batch * heads.heads,
                                  .threads = kTileThreads,
                                  .shared_bytes = kQuerySharedBytes<kHeadDim>};
  return make_kernel([=, &queue]() mutable {
    in.dots = reinterpret_cast<float*>(queue.workspace());
    launch("attention_grad_dots", attention_grad_dots<T>, dots, queue, in.grad, in.o, in.dots, rows, heads.head_dim);
    launch("attention_grad_keys", attention_grad_keys<T, U, kHeadDim>, by_keys, queue, in, dk, dv, heads);
    launch("attention_grad_queries", attention_grad_queries<T, kHeadDim>, by_queries, queue, in, dq, heads);
  });
}

template <class T, class U>
std::unique_ptr<Kernel> make_attention_grad(const LocalStep& step, DeviceQueue& queue) {
  const AttentionHeads heads(step.attributes, step.operands[1], step.operands[2]);
  AttentionGradInputs<T> in = {.grad = data_of<T>(step.operands[0]),
                               .q = data_of<T>(step.operands[1]),
                               .k = data_of<T>(step.operands[2]),
                               .v = data_of<T>(step.operands[3]),
                               .o = data_of<T>(step.operands[4]),
                               .lse = data_of<float>(step.operands[5])};
  T* dq = data_of<T>(step.results[0]);
  U* dk = data_of<U>(step.results[1]);
  U* dv = data_of<U>(step.results[2]);
  in.packed = are_heads_packed<T>(heads.head_dim, {in.grad, in.q, in.k, in.v, dq, dk, dv});
  return with_head_dim(step, heads.head_dim, [&](auto head_dim) {
    return make_attention_grad<T, U, decltype(head_dim)::kSize>(in, dq, dk, dv, heads, queue);
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_attention_grad(const LocalStep& step, DeviceQueue& queue) {
  return with_float_type(step.operands[1].type.dtype, [&](auto element) {
    using T = decltype(element);
    // Parts of a sum may be wanted unrounded.
    return step.results[1].type.dtype == DType::kF32 ? make_attention_grad<T, float>(step, queue)
                                                     : make_attention_grad<T, T>(step, queue);
  });
}

}  // namespace tpc::cuda
