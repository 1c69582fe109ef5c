/// What makes the kernels: one prepare function an op, defined in the file with the stem of the op or of its family.
#pragma once

#include <memory>
#include <utility>

#include "runtime/backend.h"
#include "runtime/cpu/scratch.h"

namespace tpc {

using PrepareKernel = std::unique_ptr<Kernel> (*)(const LocalStep&);
/// Of kernels that need working memory; they keep `scratch`, which the kernels of a rank share.
using PrepareScratchKernel = std::unique_ptr<Kernel> (*)(const LocalStep&, std::shared_ptr<Scratch> scratch);

std::unique_ptr<Kernel> prepare_adamw(const LocalStep& step);
std::unique_ptr<Kernel> prepare_add(const LocalStep& step);
std::unique_ptr<Kernel> prepare_attention(const LocalStep& step, std::shared_ptr<Scratch> scratch);
std::unique_ptr<Kernel> prepare_attention_grad(const LocalStep& step, std::shared_ptr<Scratch> scratch);
std::unique_ptr<Kernel> prepare_broadcast_to(const LocalStep& step);
std::unique_ptr<Kernel> prepare_cast(const LocalStep& step);
std::unique_ptr<Kernel> prepare_clip_coefficient(const LocalStep& step);
std::unique_ptr<Kernel> prepare_concat(const LocalStep& step);
std::unique_ptr<Kernel> prepare_contract(const LocalStep& step, std::shared_ptr<Scratch> scratch);
std::unique_ptr<Kernel> prepare_divide(const LocalStep& step);
std::unique_ptr<Kernel> prepare_dropout(const LocalStep& step);
std::unique_ptr<Kernel> prepare_embedding(const LocalStep& step);
std::unique_ptr<Kernel> prepare_embedding_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_fill(const LocalStep& step);
std::unique_ptr<Kernel> prepare_layer_norm(const LocalStep& step);
std::unique_ptr<Kernel> prepare_layer_norm_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_local_slice(const LocalStep& step);
std::unique_ptr<Kernel> prepare_mask(const LocalStep& step);
std::unique_ptr<Kernel> prepare_multiply(const LocalStep& step);
std::unique_ptr<Kernel> prepare_pad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_reduce_sum(const LocalStep& step);
std::unique_ptr<Kernel> prepare_reshape(const LocalStep& step);
std::unique_ptr<Kernel> prepare_rms_norm(const LocalStep& step);
std::unique_ptr<Kernel> prepare_rms_norm_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_rope(const LocalStep& step);
std::unique_ptr<Kernel> prepare_row_max(const LocalStep& step);
std::unique_ptr<Kernel> prepare_scale(const LocalStep& step);
std::unique_ptr<Kernel> prepare_sgd(const LocalStep& step);
std::unique_ptr<Kernel> prepare_slice(const LocalStep& step);
std::unique_ptr<Kernel> prepare_softmax(const LocalStep& step);
std::unique_ptr<Kernel> prepare_softmax_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_softmax_stats(const LocalStep& step);
std::unique_ptr<Kernel> prepare_softmax_stats_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_square_root(const LocalStep& step);
std::unique_ptr<Kernel> prepare_subtract(const LocalStep& step);
std::unique_ptr<Kernel> prepare_sum_squares(const LocalStep& step);
std::unique_ptr<Kernel> prepare_token_loss(const LocalStep& step);
std::unique_ptr<Kernel> prepare_token_loss_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_transpose(const LocalStep& step);
std::unique_ptr<Kernel> prepare_unary(const LocalStep& step);
std::unique_ptr<Kernel> prepare_unary_grad(const LocalStep& step);
std::unique_ptr<Kernel> prepare_update(const LocalStep& step);
std::unique_ptr<Kernel> prepare_zero_pad(const LocalStep& step);

/// A kernel from a function object run(const StepContext&).
template <class Run>
std::unique_ptr<Kernel> make_kernel(Run run) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(Run function) : function_(std::move(function)) {}
    void run(const StepContext& context) override { function_(context); }

   private:
    Run function_;
  };
  return std::make_unique<FunctionKernel>(std::move(run));
}

}  // namespace tpc
