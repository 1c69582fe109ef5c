#include "compiler/lowering/workspace.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/lowering/collective_calls.h"
#include "compiler/lowering/norm_grid.h"
#include "compiler/lowering/sum_stages.h"

namespace tpc {
namespace {

constexpr int64_t kFloat = sizeof(float);

/// A float for every row of the queries' heads.
int64_t attention_grad_workspace(const LocalTensor& q) {
  return q.region.num_elements() / q.region.dims.back().size() * kFloat;
}

/// `sums` sums for every column, from each block.
int64_t norm_grad_workspace(const LocalTensor& x, int64_t sums) {
  int64_t length = x.region.dims.back().size();
  int64_t blocks = norm_grad_blocks(x.region.num_elements() / length, length, byte_size(x.type.dtype));
  return blocks * sums * length * kFloat;
}

/// A double for every chunk of the tensors.
int64_t sum_squares_workspace(std::span<const LocalStep> steps) {
  constexpr int64_t kChunk = 1 << 13;
  int64_t chunks = 0;
  for (const LocalStep& step : steps) chunks += (step.operands[0].region.num_elements() + kChunk - 1) / kChunk;
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

int64_t packed_matrix_bytes(const BlasMatrix& matrix) {
  if (!matrix.copy) return 0;
  constexpr int64_t kLine = 256;
  int64_t bytes = matrix.copy->loop.num_elements() * byte_size(matrix.dtype);
  return (bytes + kLine - 1) / kLine * kLine;
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

int64_t collective_workspace(const CollectiveStep& step) {
  return collective_calls(step).workspace * byte_size(step.input.type.dtype);
}

DeviceWorkspace device_workspace(const RankUnits& units) {
  DeviceWorkspace most;
  for (const RankUnit& unit : units.units) {
    if (unit.collective) most.communication = std::max(most.communication, collective_workspace(*unit.collective));
    if (!unit.kernel.empty()) most.compute = std::max(most.compute, kernel_workspace(unit.kernel));
  }
  return most;
}

}  // namespace tpc
