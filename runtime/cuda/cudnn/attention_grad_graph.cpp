#include "runtime/cuda/cudnn/attention_graph.h"

namespace tpc::cuda::cudnn {
namespace {

constexpr cudnnDataType_t kData = CUDNN_DATA_BFLOAT16;

int64_t id(Slot slot) { return static_cast<int64_t>(slot); }

// weights' rows, where query heads that share a key head are summed.
void add_key_grad(OperationGraph& graph, const CudnnAttention& asked, const Tensor& weights, const Tensor& rows,
                  const Tensor& result) {
  Tensor transposed_weights = graph.view(weights, transposed(weights.layout), kData);
  if (asked.heads == asked.kv_heads) {
    graph.matmul_into(transposed_weights, rows, result);
    return;
  }
  Tensor of_heads = graph.intermediate(packed({asked.batch, asked.heads, asked.keys, asked.head_dim}), kData);
  graph.matmul_into(transposed_weights, rows, of_heads);
  graph.sum_into(of_heads, result);
}

}  // namespace

void add_attention_grad(OperationGraph& graph, const CudnnAttention& asked) {
  const Layout like_q = query_layout(asked);
  const Layout like_k = key_layout(asked);
  const Layout like_lse = statistics_layout(asked);
  Tensor q = graph.memory(id(Slot::kQ), like_q, kData);
  Tensor transposed_k = graph.memory(id(Slot::kK), transposed(like_k), kData);
  Tensor transposed_v = graph.memory(id(Slot::kV), transposed(like_k), kData);
  Tensor o = graph.memory(id(Slot::kO), like_q, kData);
  Tensor grad = graph.memory(id(Slot::kGrad), like_q, kData);
  Tensor lse = graph.memory(id(Slot::kLse), like_lse, CUDNN_DATA_FLOAT);
  Tensor dots = graph.memory(id(Slot::kDots), like_lse, CUDNN_DATA_FLOAT);
  Tensor dq = graph.memory(id(Slot::kDq), like_q, kData);
  Tensor dk = graph.memory(id(Slot::kDk), like_k, kData);
  Tensor dv = graph.memory(id(Slot::kDv), like_k, kData);
  Tensor scale = graph.host_value(id(Slot::kScale), CUDNN_DATA_FLOAT);
  Tensor one = graph.host_value(id(Slot::kOne), CUDNN_DATA_FLOAT);

  // The factor is where dropout would scale; the engines know no form without it.
  graph.multiply_into(graph.row_sum(graph.multiply(grad, o)), one, dots);

  Tensor p = graph.exp(add_scores(graph, asked, q, transposed_k, scale, &lse));
  add_key_grad(graph, asked, p, grad, dv);

  Tensor ds = graph.subtract(graph.matmul(grad, transposed_v), dots);
  ds = graph.multiply(graph.multiply(ds, p), scale);
  add_key_grad(graph, asked, ds, q, dk);
  Tensor k = graph.view(transposed_k, like_k, CUDNN_DATA_FLOAT);
  graph.matmul_into(ds, k, dq);
}

}  // namespace tpc::cuda::cudnn
