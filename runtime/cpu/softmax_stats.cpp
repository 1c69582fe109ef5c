// The pieces of a cross entropy whose vocabulary may be split: the sum of exponentials and the target's logit.
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/vector_math.h"

namespace tpc {
namespace {

/// logits[..., v] on this rank: rows and the block of the vocabulary.
struct LogitRows {
  int64_t rows = 0;
  Interval v;

  explicit LogitRows(const LocalTensor& logits)
      : rows(logits.region.num_elements() / logits.region.dims.back().size()), v(logits.region.dims.back()) {}

  bool has(int64_t target) const { return target >= v.begin && target < v.end; }
};

}  // namespace

std::unique_ptr<Kernel> prepare_softmax_stats(const LocalStep& step) {
  const LogitRows shape(step.operands[0]);
  const float* x = step.operands[0].f32();
  const int32_t* targets = step.operands[1].i32();
  const float* m = step.operands[2].f32();
  float* sums = step.results[0].f32();
  float* target_logits = sums + shape.rows;
  return make_kernel([=](const StepContext&) {
    const int64_t v = shape.v.size();
    parallel_ranges(shape.rows, 8 * v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* row = x + i * v;
        sums[i] = sum_vectors(
            v, [&](Vector a) { return vector_exp(a - m[i]); }, row);
        target_logits[i] = shape.has(targets[i]) ? row[targets[i] - shape.v.begin] - m[i] : 0.0f;
      }
    });
  });
}

std::unique_ptr<Kernel> prepare_softmax_stats_grad(const LocalStep& step) {
  const LogitRows shape(step.operands[0]);
  const float* x = step.operands[0].f32();
  const int32_t* targets = step.operands[1].i32();
  const float* m = step.operands[2].f32();
  const float* dsums = step.operands[3].f32();
  const float* dtarget_logits = dsums + shape.rows;
  float* dx = step.results[0].f32();
  return make_kernel([=](const StepContext&) {
    const int64_t v = shape.v.size();
    parallel_ranges(shape.rows, 8 * v, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float d = dsums[i];
        map_vectors(
            v, dx + i * v, [&](Vector a) { return vector_exp(a - m[i]) * d; }, x + i * v);
        if (shape.has(targets[i])) dx[i * v + targets[i] - shape.v.begin] += dtarget_logits[i];
      }
    });
  });
}

}  // namespace tpc
