#include "runtime/cpu/cpu_backend.h"

#include <algorithm>
#include <iterator>

#include "compiler/core/check.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/widened_kernel.h"
#include "runtime/host_backend.h"

namespace tpc {
namespace {

struct KernelRow {
  constexpr KernelRow(OpKind kind, PrepareKernel function) : op(kind), prepare(function) {}
  constexpr KernelRow(OpKind kind, PrepareScratchKernel function) : op(kind), prepare_with_scratch(function) {}

  OpKind op;
  // One of the two.
  PrepareKernel prepare = nullptr;
  PrepareScratchKernel prepare_with_scratch = nullptr;
};

// What is absent cannot stand in a plan (leaves, outputs, redistribute) or is the communicator's.
constexpr KernelRow kKernels[] = {
    {OpKind::kAdamW, prepare_adamw},
    {OpKind::kAdd, prepare_add},
    {OpKind::kAttention, prepare_attention},
    {OpKind::kAttentionGrad, prepare_attention_grad},
    {OpKind::kBroadcastTo, prepare_broadcast_to},
    {OpKind::kCast, prepare_cast},
    {OpKind::kClipCoefficient, prepare_clip_coefficient},
    {OpKind::kConcat, prepare_concat},
    {OpKind::kContract, prepare_contract},
    {OpKind::kDivide, prepare_divide},
    {OpKind::kDropout, prepare_dropout},
    {OpKind::kEmbedding, prepare_embedding},
    {OpKind::kEmbeddingGrad, prepare_embedding_grad},
    {OpKind::kFill, prepare_fill},
    {OpKind::kLayerNorm, prepare_layer_norm},
    {OpKind::kLayerNormGrad, prepare_layer_norm_grad},
    {OpKind::kLocalSlice, prepare_local_slice},
    {OpKind::kMask, prepare_mask},
    {OpKind::kMultiply, prepare_multiply},
    {OpKind::kPad, prepare_pad},
    {OpKind::kReduceSum, prepare_reduce_sum},
    {OpKind::kReshape, prepare_reshape},
    {OpKind::kRmsNorm, prepare_rms_norm},
    {OpKind::kRmsNormGrad, prepare_rms_norm_grad},
    {OpKind::kRope, prepare_rope},
    {OpKind::kRowMax, prepare_row_max},
    {OpKind::kScale, prepare_scale},
    {OpKind::kSgd, prepare_sgd},
    {OpKind::kSlice, prepare_slice},
    {OpKind::kSoftmax, prepare_softmax},
    {OpKind::kSoftmaxGrad, prepare_softmax_grad},
    {OpKind::kSoftmaxStats, prepare_softmax_stats},
    {OpKind::kSoftmaxStatsGrad, prepare_softmax_stats_grad},
    {OpKind::kSquareRoot, prepare_square_root},
    {OpKind::kSubtract, prepare_subtract},
    {OpKind::kSumSquares, prepare_sum_squares},
    {OpKind::kTokenLoss, prepare_token_loss},
    {OpKind::kTokenLossGrad, prepare_token_loss_grad},
    {OpKind::kTranspose, prepare_transpose},
    {OpKind::kUnary, prepare_unary},
    {OpKind::kUnaryGrad, prepare_unary_grad},
    {OpKind::kUpdate, prepare_update},
    {OpKind::kZeroPad, prepare_zero_pad},
};

class CpuBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "cpu"; }

 protected:
  std::unique_ptr<Kernel> prepare_step(const LocalStep& step) override {
    const auto* row = std::ranges::find(kKernels, step.op, &KernelRow::op);
    TPC_CHECK(row != std::end(kKernels), "the cpu backend has no kernel for \"{}\" (op {})", step.name,
              static_cast<int>(step.op));
    auto prepare_f32 = [&](const LocalStep& f32_step) {
      return row->prepare != nullptr ? row->prepare(f32_step) : row->prepare_with_scratch(f32_step, scratch_);
    };
    if (step.op == OpKind::kCast || !has_bf16(step)) return prepare_f32(step);
    return widened_kernel(step, room_, prepare_f32);
  }

 private:
  std::shared_ptr<Scratch> scratch_ = std::make_shared<Scratch>();
  std::shared_ptr<LastingFloats> room_ = std::make_shared<LastingFloats>();
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace tpc
