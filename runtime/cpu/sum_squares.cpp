// Sum of squares in double: pieces of a fixed size, added in order, so that the threads do not matter.
#include <algorithm>
#include <vector>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {
namespace {

double sum_of_piece(const float* x, int64_t count) {
  // Squares of floats are exact in double; many partial sums keep the vector units busy.
  constexpr int64_t kSums = 32;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) {
      const double value = static_cast<double>(x[i + j]);
      sums[j] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace

std::unique_ptr<Kernel> prepare_sum_squares(const LocalStep& step) {
  constexpr int64_t kPiece = 1 << 14;
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.operands[0].region.num_elements();
  std::vector<double> sums(static_cast<size_t>((size + kPiece - 1) / kPiece));
  return make_kernel([=, sums = std::move(sums)](const StepContext&) mutable {
    parallel_ranges(static_cast<int64_t>(sums.size()), kPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[static_cast<size_t>(i)] = sum_of_piece(x + i * kPiece, std::min(kPiece, size - i * kPiece));
      }
    });
    double total = 0;
    for (double sum : sums) total += sum;
    *y = static_cast<float>(total);
  });
}

}  // namespace tpc
