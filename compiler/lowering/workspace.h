/// Working memory that a GPU's kernels and products need beside the arena of the plan.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/lowering/collective_step.h"
#include "compiler/lowering/cudnn_attention.h"
#include "compiler/lowering/matmul.h"
#include "compiler/lowering/rank_steps.h"

namespace tpc {

/// What cuBLASLt is given on a Hopper GPU; with less it leaves out its best algorithms.
inline constexpr int64_t kMatmulWorkspace = int64_t{32} << 20;

/// Working memory of a kernel is taken in lines of 256 bytes: `bytes` rounded up.
int64_t whole_lines(int64_t bytes);

/// Of a matrix that is copied before or after its product, in whole lines; 0 for others.
int64_t packed_matrix_bytes(const BlasMatrix& matrix);

/// Bytes that a product works in: its packed matrices, and after them cuBLASLt's part.
int64_t matmul_workspace(const Matmul& matmul);

/// Bytes that the kernel of `steps`, which num_together() put together, works in. The backend holds its kernels to it.
int64_t kernel_workspace(std::span<const LocalStep> steps);

/// The same where cuDNN does the step: the statistics in its order, and what its engines work in. Exact but for some
/// lines, since the engines are chosen on the device.
int64_t cudnn_workspace(const CudnnAttention& attention);

/// Bytes that the calls of a collective work in.
int64_t collective_workspace(const CollectiveStep& step);

/// What is issued to a queue runs one after the other and works in the same memory, so the most of all counts.
struct DeviceWorkspace {
  int64_t compute = 0;        ///< bytes
  int64_t communication = 0;  ///< bytes
  int64_t total() const { return compute + communication; }
  bool operator==(const DeviceWorkspace&) const = default;
};

/// Of units that were lowered with num_together(). `use_cudnn`: it is there, and does the attention that it is asked
/// for.
DeviceWorkspace device_workspace(const RankUnits& units, bool use_cudnn = true);

}  // namespace tpc
