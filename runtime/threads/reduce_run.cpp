#include "runtime/threads/reduce_run.h"

#include <algorithm>

#include "compiler/core/check.h"

namespace tpc {
namespace {

// Partial results of a run stay in the first-level cache.
constexpr int64_t kChunk = 2048;

struct Sum {
  static float of(float a, float b) { return a + b; }
};
struct Max {
  static float of(float a, float b) { return a < b || b != b ? b : a; }
};

template <class Op>
void combine(const float* a, const float* b, float* target, int64_t length) {
  // Target is a, b or disjoint from both: no element depends on another.
#pragma GCC ivdep
  for (int64_t i = 0; i < length; ++i) target[i] = Op::of(a[i], b[i]);
}

template <class Op>
void reduce(std::span<const float* const> sources, int64_t offset, float* target, int64_t length) {
  size_t last = sources.size() - 1;
  if (last == 0) {
    if (target != sources[0] + offset) std::copy_n(sources[0] + offset, length, target);
    return;
  }
  if (last == 1) {
    combine<Op>(sources[0] + offset, sources[1] + offset, target, length);
    return;
  }
  // Target may be one of the sources that are still to be read, so only the last step of a chunk writes it.
  alignas(64) float partial[kChunk];
  for (int64_t begin = 0; begin < length; begin += kChunk) {
    int64_t size = std::min(kChunk, length - begin);
    int64_t at = offset + begin;
    combine<Op>(sources[0] + at, sources[1] + at, partial, size);
    for (size_t s = 2; s < last; ++s) combine<Op>(partial, sources[s] + at, partial, size);
    combine<Op>(partial, sources[last] + at, target + begin, size);
  }
}

template <class Op>
void reduce(std::span<const BFloat16* const> sources, int64_t offset, BFloat16* target, int64_t length) {
  alignas(64) float partial[kChunk];
  for (int64_t begin = 0; begin < length; begin += kChunk) {
    const int64_t size = std::min(kChunk, length - begin);
    const BFloat16* first = sources[0] + offset + begin;
    for (int64_t i = 0; i < size; ++i) partial[i] = static_cast<float>(first[i]);
    for (size_t s = 1; s < sources.size(); ++s) {
      const BFloat16* next = sources[s] + offset + begin;
      for (int64_t i = 0; i < size; ++i) partial[i] = Op::of(partial[i], static_cast<float>(next[i]));
    }
    for (int64_t i = 0; i < size; ++i) target[begin + i] = BFloat16(partial[i]);
  }
}

}  // namespace

void reduce_run(ReduceOp op, std::span<const BFloat16* const> sources, int64_t offset, BFloat16* target,
                int64_t length) {
  TPC_CHECK(!sources.empty(), "nothing to reduce");
  if (op == ReduceOp::kMax) {
    reduce<Max>(sources, offset, target, length);
  } else {
    reduce<Sum>(sources, offset, target, length);
  }
}

void reduce_run(ReduceOp op, std::span<const float* const> sources, int64_t offset, float* target, int64_t length) {
  TPC_CHECK(!sources.empty(), "nothing to reduce");
  if (op == ReduceOp::kMax) {
    reduce<Max>(sources, offset, target, length);
  } else {
    reduce<Sum>(sources, offset, target, length);
  }
}

}  // namespace tpc
