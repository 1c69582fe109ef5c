#include "runtime/cuda/cudnn/attention_graph.h"

namespace tpc::cuda::cudnn {
namespace {

int64_t id(Slot slot) { return static_cast<int64_t>(slot); }

}  // namespace

bool has_shifted_mask(const CudnnAttention& asked) { return asked.causal && asked.keys != asked.queries; }

Layout query_layout(const CudnnAttention& asked) {
  int64_t token = asked.all_heads * asked.head_dim;
  return {{asked.batch, asked.heads, asked.queries, asked.head_dim}, {asked.queries * token, asked.head_dim, token, 1}};
}

Layout key_layout(const CudnnAttention& asked) {
  int64_t token = asked.all_kv_heads * asked.head_dim;
  return {{asked.batch, asked.kv_heads, asked.keys, asked.head_dim},
          {asked.all_keys * token, asked.head_dim, token, 1}};
}

Layout statistics_layout(const CudnnAttention& asked) { return packed({asked.batch, asked.heads, asked.queries, 1}); }

Tensor add_scores(OperationGraph& graph, const CudnnAttention& asked, const Tensor& q, const Tensor& transposed_k,
                  const Tensor& scale, const Tensor* between) {
  Tensor scores = graph.multiply(graph.matmul(q, transposed_k), scale);
  if (between != nullptr) scores = graph.subtract(scores, *between);
  if (!asked.causal) return scores;
  Tensor minus_infinity = graph.host_value(id(Slot::kMinusInfinity), CUDNN_DATA_FLOAT);
  if (!has_shifted_mask(asked)) return graph.keep_lower(scores, minus_infinity);
  Tensor queries = graph.host_value(id(Slot::kNumQueries), CUDNN_DATA_INT32);
  Tensor keys = graph.host_value(id(Slot::kNumKeys), CUDNN_DATA_INT32);
  return graph.keep_lower(scores, minus_infinity, queries, keys);
}

void add_attention(OperationGraph& graph, const CudnnAttention& asked) {
  constexpr cudnnDataType_t kData = CUDNN_DATA_BFLOAT16;
  Tensor q = graph.memory(id(Slot::kQ), query_layout(asked), kData);
  Tensor transposed_k = graph.memory(id(Slot::kK), transposed(key_layout(asked)), kData);
  Tensor v = graph.memory(id(Slot::kV), key_layout(asked), kData);
  Tensor o = graph.memory(id(Slot::kO), query_layout(asked), kData);
  Tensor lse = graph.memory(id(Slot::kLse), statistics_layout(asked), CUDNN_DATA_FLOAT);
  Tensor scale = graph.host_value(id(Slot::kScale), CUDNN_DATA_FLOAT);

  Tensor scores = add_scores(graph, asked, q, transposed_k, scale, nullptr);
  Tensor largest = graph.row_max(scores);
  Tensor exponentials = graph.exp(graph.subtract(scores, largest));
  Tensor sum = graph.row_sum(exponentials);
  graph.add_into(largest, graph.log(sum), lse);
  Tensor probabilities = graph.intermediate(scores.layout, kData);
  graph.divide_into(exponentials, sum, probabilities);
  graph.matmul_into(probabilities, v, o);
}

}  // namespace tpc::cuda::cudnn
