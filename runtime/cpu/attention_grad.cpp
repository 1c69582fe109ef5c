// Gradient of attention: probabilities are computed again from the log-sum-exp, a block of query rows at a time.
#include <cmath>
#include <memory>
#include <utility>

#include "runtime/attention_heads.h"
#include "runtime/cpu/attention_block.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/vector_math.h"

namespace tpc {
namespace {

class AttentionGradKernel final : public Kernel {
 public:
  AttentionGradKernel(const LocalStep& step, std::shared_ptr<Scratch> scratch)
      : heads_(step.attributes, step.operands[1], step.operands[2]),
        grad_(step.operands[0].f32()),
        q_(step.operands[1].f32()),
        k_(step.operands[2].f32()),
        v_(step.operands[3].f32()),
        o_(step.operands[4].f32()),
        lse_(step.operands[5].f32()),
        dq_(step.results[0].f32()),
        dk_(step.results[1].f32()),
        dv_(step.results[2].f32()),
        num_threads_(omp_get_max_threads()),
        scratch_(std::move(scratch)) {
    scratch_->reserve(num_threads_, keys_size() + 2 * keys_transposed_size() + 2 * block_size() + 2 * scores_size());
  }

  void run(const StepContext& /*context*/) override {
    // One thread does all query heads of a kv head: it alone adds to that head's dk and dv, in a fixed order.
    const int64_t items = heads_.batch * heads_.kv_heads;
    const int64_t work = heads_.work_of_head() * 3 * heads_.heads / heads_.kv_heads;
    parallel_ranges(items, work, num_threads_, [this](int64_t begin, int64_t end, int thread) {
      const Buffers buffers = buffers_of(thread);
      for (int64_t item = begin; item < end; ++item) {
        run_kv_head(item / heads_.kv_heads, item % heads_.kv_heads, buffers);
      }
    });
  }

 private:
  struct Buffers {
    float* keys;               // k, packed
    float* keys_transposed;    // scale * k', packed
    float* values_transposed;  // v', packed
    float* queries;            // a block of q, packed
    float* grads;              // a block of do, packed
    float* probabilities;      // [kQueryBlock, padded keys]
    float* score_grads;        // the same
  };

  int64_t keys_size() const { return packed_size(heads_.keys, heads_.head_dim); }
  int64_t keys_transposed_size() const { return packed_size(heads_.head_dim, heads_.keys); }
  int64_t block_size() const { return packed_size(kQueryBlock, heads_.head_dim); }
  int64_t scores_size() const { return kQueryBlock * padded_columns(heads_.keys); }

  Buffers buffers_of(int thread) const {
    Buffers buffers{};
    buffers.keys = scratch_->of(thread);
    buffers.keys_transposed = buffers.keys + keys_size();
    buffers.values_transposed = buffers.keys_transposed + keys_transposed_size();
    buffers.queries = buffers.values_transposed + keys_transposed_size();
    buffers.grads = buffers.queries + block_size();
    buffers.probabilities = buffers.grads + block_size();
    buffers.score_grads = buffers.probabilities + scores_size();
    return buffers;
  }

  void run_kv_head(int64_t b, int64_t kv_head, const Buffers& buffers) const {
    const int64_t d = heads_.head_dim;
    const int64_t offset = heads_.key_offset(b, kv_head);
    pack_panels({k_ + offset, heads_.key_stride(), 1}, heads_.keys, d, 1.0f, buffers.keys);
    pack_panels({k_ + offset, 1, heads_.key_stride()}, d, heads_.keys, heads_.scale, buffers.keys_transposed);
    pack_panels({v_ + offset, 1, heads_.key_stride()}, d, heads_.keys, 1.0f, buffers.values_transposed);
    for (int64_t t = 0; t < heads_.keys; ++t) {
      std::fill_n(dk_ + offset + t * heads_.key_stride(), d, 0.0f);
      std::fill_n(dv_ + offset + t * heads_.key_stride(), d, 0.0f);
    }
    for (int64_t head = 0; head < heads_.heads; ++head) {
      if (heads_.kv_head_of(head) != kv_head) continue;
      for (int64_t first = 0; first < heads_.queries; first += kQueryBlock) {
        run_block(b, head, first, std::min(kQueryBlock, heads_.queries - first), offset, buffers);
      }
    }
  }

  void run_block(int64_t b, int64_t head, int64_t first, int64_t rows, int64_t key_offset,
                 const Buffers& buffers) const {
    const int64_t d = heads_.head_dim;
    const int64_t width = padded_columns(heads_.keys);
    const int64_t seen = heads_.num_seen(first + rows - 1);
    const int64_t offset = heads_.query_offset(b, first, head);
    float* p = buffers.probabilities;
    float* ds = buffers.score_grads;

    // p = scale * q k', ds = do v'
    PanelProduct scores = {.rows = rows,
                           .columns = padded_columns(seen),
                           .inner = d,
                           .a = {q_ + offset, heads_.query_stride(), 1},
                           .b = buffers.keys_transposed,
                           .b_rows = d,
                           .b_columns = heads_.keys,
                           .c = p,
                           .c_row_stride = width};
    multiply(scores);
    scores.a.data = grad_ + offset;
    scores.b = buffers.values_transposed;
    scores.c = ds;
    multiply(scores);

    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row_seen = heads_.num_seen(first + i);
      const float lse = lse_[(b * heads_.queries + first + i) * heads_.heads + head];
      const int64_t row = offset + i * heads_.query_stride();
      const float grad_dot_o = sum_vectors(
          d, [](Vector x, Vector y) { return x * y; }, grad_ + row, o_ + row);
      float* p_row = p + i * width;
      float* ds_row = ds + i * width;
      map_vectors(
          row_seen, p_row, [&](Vector x) { return vector_exp(x - lse); }, p_row);
      map_vectors(
          row_seen, ds_row, [&](Vector prob, Vector x) { return prob * (x - grad_dot_o) * heads_.scale; }, p_row,
          ds_row);
      std::fill(p_row + row_seen, p_row + seen, 0.0f);
      std::fill(ds_row + row_seen, ds_row + seen, 0.0f);
    }

    multiply({.rows = rows,
              .columns = d,
              .inner = seen,
              .a = {ds, width, 1},
              .b = buffers.keys,
              .b_rows = heads_.keys,
              .b_columns = d,
              .c = dq_ + offset,
              .c_row_stride = heads_.query_stride()});
    // dv += p' do, dk += ds' q
    pack_panels({grad_ + offset, heads_.query_stride(), 1}, rows, d, 1.0f, buffers.grads);
    pack_panels({q_ + offset, heads_.query_stride(), 1}, rows, d, 1.0f, buffers.queries);
    PanelProduct key_grads = {.rows = seen,
                              .columns = d,
                              .inner = rows,
                              .a = {p, 1, width},
                              .b = buffers.grads,
                              .b_rows = rows,
                              .b_columns = d,
                              .c = dv_ + key_offset,
                              .c_row_stride = heads_.key_stride(),
                              .accumulate = true};
    multiply(key_grads);
    key_grads.a.data = ds;
    key_grads.b = buffers.queries;
    key_grads.c = dk_ + key_offset;
    multiply(key_grads);
  }

  AttentionHeads heads_;
  const float* grad_;
  const float* q_;
  const float* k_;
  const float* v_;
  const float* o_;
  const float* lse_;
  float* dq_;
  float* dk_;
  float* dv_;
  int num_threads_;
  std::shared_ptr<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_attention_grad(const LocalStep& step, std::shared_ptr<Scratch> scratch) {
  return std::make_unique<AttentionGradKernel>(step, std::move(scratch));
}

}  // namespace tpc
