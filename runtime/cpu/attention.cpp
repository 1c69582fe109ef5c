// Fused attention: one query head at a time, a block of query rows against all the keys they see, so that only that
// block of scores is ever held.
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

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const LocalStep& step, std::shared_ptr<Scratch> scratch)
      : heads_(step.attributes, step.operands[0], step.operands[1]),
        q_(step.operands[0].f32()),
        k_(step.operands[1].f32()),
        v_(step.operands[2].f32()),
        o_(step.results[0].f32()),
        lse_(step.results[1].f32()),
        num_threads_(omp_get_max_threads()),
        scratch_(std::move(scratch)) {
    scratch_->reserve(num_threads_, packed_size(heads_.head_dim, heads_.keys) +
                                        packed_size(heads_.keys, heads_.head_dim) +
                                        kQueryBlock * padded_columns(heads_.keys));
  }

  void run(const StepContext& /*context*/) override {
    // Consecutive heads of one sequence share their keys when grouped.
    parallel_ranges(heads_.batch * heads_.heads, heads_.work_of_head(), num_threads_,
                    [this](int64_t begin, int64_t end, int thread) {
                      const Buffers buffers = buffers_of(thread);
                      int64_t packed = -1;
                      for (int64_t item = begin; item < end; ++item) {
                        const int64_t b = item / heads_.heads;
                        const int64_t head = item % heads_.heads;
                        const int64_t keys = heads_.key_offset(b, heads_.kv_head_of(head));
                        if (keys != packed) pack_keys(keys, buffers);
                        packed = keys;
                        run_head(b, head, buffers);
                      }
                    });
  }

 private:
  struct Buffers {
    float* keys;    // scale * k', packed
    float* values;  // v, packed
    float* scores;  // [kQueryBlock, padded keys]
  };

  Buffers buffers_of(int thread) const {
    float* keys = scratch_->of(thread);
    float* values = keys + packed_size(heads_.head_dim, heads_.keys);
    return {keys, values, values + packed_size(heads_.keys, heads_.head_dim)};
  }

  void pack_keys(int64_t offset, const Buffers& buffers) const {
    pack_panels({k_ + offset, 1, heads_.key_stride()}, heads_.head_dim, heads_.keys, heads_.scale, buffers.keys);
    pack_panels({v_ + offset, heads_.key_stride(), 1}, heads_.keys, heads_.head_dim, 1.0f, buffers.values);
  }

  void run_head(int64_t b, int64_t head, const Buffers& buffers) const {
    const int64_t width = padded_columns(heads_.keys);
    for (int64_t first = 0; first < heads_.queries; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, heads_.queries - first);
      const int64_t seen = heads_.num_seen(first + rows - 1);
      const int64_t offset = heads_.query_offset(b, first, head);
      multiply({.rows = rows,
                .columns = padded_columns(seen),
                .inner = heads_.head_dim,
                .a = {q_ + offset, heads_.query_stride(), 1},
                .b = buffers.keys,
                .b_rows = heads_.head_dim,
                .b_columns = heads_.keys,
                .c = buffers.scores,
                .c_row_stride = width});
      float maxima[kQueryBlock];
      float sums[kQueryBlock];
      for (int64_t i = 0; i < rows; ++i) {
        float* row = buffers.scores + i * width;
        const int64_t row_seen = heads_.num_seen(first + i);
        maxima[i] = max_of(row_seen, row);
        sums[i] = exp_and_sum(row_seen, row, maxima[i], row);
        std::fill(row + row_seen, row + seen, 0.0f);
      }
      multiply({.rows = rows,
                .columns = heads_.head_dim,
                .inner = seen,
                .a = {buffers.scores, width, 1},
                .b = buffers.values,
                .b_rows = heads_.keys,
                .b_columns = heads_.head_dim,
                .c = o_ + offset,
                .c_row_stride = heads_.query_stride()});
      for (int64_t i = 0; i < rows; ++i) {
        float* row = o_ + offset + i * heads_.query_stride();
        const float factor = 1.0f / sums[i];
        lse_[(b * heads_.queries + first + i) * heads_.heads + head] = maxima[i] + std::log(sums[i]);
        map_vectors(
            heads_.head_dim, row, [&](Vector x) { return x * factor; }, row);
      }
    }
  }

  AttentionHeads heads_;
  const float* q_;
  const float* k_;
  const float* v_;
  float* o_;
  float* lse_;
  int num_threads_;
  std::shared_ptr<Scratch> scratch_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_attention(const LocalStep& step, std::shared_ptr<Scratch> scratch) {
  return std::make_unique<AttentionKernel>(step, std::move(scratch));
}

}  // namespace tpc
