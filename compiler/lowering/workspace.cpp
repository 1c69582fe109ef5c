#include "compiler/lowering/workspace.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/lowering/collective_calls.h"
#include "compiler/lowering/norm_grid.h"
#include "compiler/lowering/sum_stages.h"
#include "compiler/lowering/tensor_chunks.h"

namespace tpc {
namespace {

constexpr int64_t kFloat = sizeof(float);

// A float for every row of the queries' heads.
int64_t attention_grad_workspace(const LocalTensor& q) {
  return q.region.num_elements() / q.region.dims.back().size() * kFloat;
}

// `sums` sums for every column, from each block.
int64_t norm_grad_workspace(const LocalTensor& x, int64_t sums) {
  int64_t length = x.region.dims.back().size();
  int64_t blocks = norm_grad_blocks(x.region.num_elements() / length, length, byte_size(x.type.dtype));
  return blocks * sums * length * kFloat;
}

// A double for every chunk of the tensors.
int64_t sum_squares_workspace(std::span<const LocalStep> steps) {
  int64_t chunks = 0;
  for (const LocalStep& step : steps) chunks += num_chunks(step.operands[0].region.num_elements());
  return chunks * static_cast<int64_t>(sizeof(double));
}

int64_t contraction_workspace(std::span<const LocalStep> steps) {
  int64_t most = 0;
  for (const FusedMatmul& product : fuse_contractions(steps).matmuls) {
    most = std::max(most, matmul_workspace(product.matmul));
  }
  return most;
}

}  // namespace

int64_t whole_lines(int64_t bytes) {
  constexpr int64_t kLine = 256;
  return (bytes + kLine - 1) / kLine * kLine;
}

int64_t packed_matrix_bytes(const BlasMatrix& matrix) {
  return matrix.copy ? whole_lines(matrix.copy->loop.num_elements() * byte_size(matrix.dtype)) : 0;
}

int64_t matmul_workspace(const Matmul& matmul) {
  return packed_matrix_bytes(matmul.a) + packed_matrix_bytes(matmul.b) + packed_matrix_bytes(matmul.d) +
         kMatmulWorkspace;
}

int64_t kernel_workspace(std::span<const LocalStep> steps) {
  const LocalStep& first = steps[0];
  switch (first.op) {
    case OpKind::kAttentionGrad:
      return attention_grad_workspace(first.operands[1]);
    case OpKind::kContract:
      return contraction_workspace(steps);
    case OpKind::kLayerNormGrad:
      return norm_grad_workspace(first.operands[1], 2);
    case OpKind::kReduceSum:
      return sum_workspace(sum_stages(first.operands[0].region.extents(), first.attributes.get_ints("dims"))) * kFloat;
    case OpKind::kRmsNormGrad:
      return norm_grad_workspace(first.operands[1], 1);
    case OpKind::kSumSquares:
      return sum_squares_workspace(steps);
    default:
      return 0;
  }
}

int64_t cudnn_workspace(const CudnnAttention& attention) {
  int64_t statistics =
      has_own_statistics(attention) ? whole_lines(attention.batch * attention.heads * attention.queries * kFloat) : 0;
  if (!attention.is_grad) return statistics;
  CudnnAttention part = part_at_once(attention);
  return statistics + whole_lines(part.batch * part.heads * part.queries * kFloat) + gradient_workspace(part);
}

int64_t collective_workspace(const CollectiveStep& step) {
  return collective_calls(step).workspace * byte_size(step.input.type.dtype);
}

DeviceWorkspace device_workspace(const RankUnits& units, bool use_cudnn) {
  DeviceWorkspace most;
  for (const RankUnit& unit : units.units) {
    if (unit.collective) most.communication = std::max(most.communication, collective_workspace(*unit.collective));
    if (unit.kernel.empty()) continue;
    std::optional<CudnnAttention> attention;
    if (use_cudnn) attention = cudnn_attention(unit.kernel[0]);
    most.compute = std::max(most.compute, attention ? cudnn_workspace(*attention) : kernel_workspace(unit.kernel));
  }
  return most;
}

}  // namespace tpc
