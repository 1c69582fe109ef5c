/// Attention and its gradient as graphs of operations, in the forms that cuDNN's fused engines know.
#pragma once

#include <cstdint>

#include "compiler/lowering/cudnn_attention.h"
#include "runtime/cuda/cudnn/operation_graph.h"

namespace tpc::cuda::cudnn {

/// Numbers of the tensors that the caller gives. Those of the layers lie as the op has them; statistics are f32
/// [batch, heads, queries], dense.
enum class Slot : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kGrad,
  kDq,
  kDk,
  kDv,
  /// Of the gradient, working memory: sum over d of grad * o, like lse.
  kDots,
  /// Values of the host: f32, and i32 for the numbers of queries and keys.
  kScale,
  kOne,
  kMinusInfinity,
  kNumQueries,
  kNumKeys,
};

/// Reads q, k, v; writes o and lse.
void add_attention(OperationGraph& graph, const CudnnAttention& asked);

/// Reads grad, q, k, v, o, lse; writes dq, dk, dv of the keys that are seen. Every element of a gradient is summed by
/// one block in a fixed order.
void add_attention_grad(OperationGraph& graph, const CudnnAttention& asked);

/// Whether the mask is shifted, so that numbers of queries and keys are given.
bool has_shifted_mask(const CudnnAttention& asked);

/// Layouts of q (o, grad, dq), of k (v, dk, dv) and of lse and the dots, in cuDNN's order [batch, heads, rows,
/// columns].
Layout query_layout(const CudnnAttention& asked);
Layout key_layout(const CudnnAttention& asked);
Layout statistics_layout(const CudnnAttention& asked);

/// scale * q k', where masked minus infinity. `between` is what the gradient subtracts before the mask.
Tensor add_scores(OperationGraph& graph, const CudnnAttention& asked, const Tensor& q, const Tensor& transposed_k,
                  const Tensor& scale, const Tensor* between);

}  // namespace tpc::cuda::cudnn
