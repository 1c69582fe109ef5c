/// Sums down the columns of a matrix, the same for any number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

/// out[k][j] = sum over i < rows of term k at (i, j), for j < columns and k < kSums. `terms(i, j, load)` returns the
/// terms of row i for a vector of columns from j on; it reads with load(pointer), which stops at the last column.
/// Threads take columns, and blocks of rows are added in order: rounding depends on the shape alone.
template <size_t kSums, class Terms>
void column_sums(int64_t rows, int64_t columns, const std::array<float*, kSums>& out, const Terms& terms) {
  constexpr int64_t kRowBlock = 64;
  constexpr int64_t kVectors = 4;
  using Sums = std::array<Vector, kSums>;
  auto add = [](Sums& sums, const Sums& more) {
    for (size_t k = 0; k < kSums; ++k) sums[k] += more[k];
  };
  parallel_ranges((columns + kLanes - 1) / kLanes, rows * kLanes, [&](int64_t begin, int64_t end) {
    for (int64_t first = 0; first < rows; first += kRowBlock) {
      const int64_t last = std::min(rows, first + kRowBlock);
      int64_t j = begin * kLanes;
      for (; j + kVectors * kLanes <= std::min(columns, end * kLanes); j += kVectors * kLanes) {
        Sums sums[kVectors] = {};
        for (int64_t i = first; i < last; ++i) {
          for (int64_t v = 0; v < kVectors; ++v) {
            add(sums[v], terms(i, j + v * kLanes, [](const float* from) { return load(from); }));
          }
        }
        for (int64_t v = 0; v < kVectors; ++v) {
          for (size_t k = 0; k < kSums; ++k) {
            float* to = out[k] + j + v * kLanes;
            store(to, first == 0 ? sums[v][k] : load(to) + sums[v][k]);
          }
        }
      }
      for (; j < std::min(columns, end * kLanes); j += kLanes) {
        const int64_t count = std::min(kLanes, columns - j);
        auto load_columns = [count](const float* from) {
          return count == kLanes ? load(from) : load_first(from, count);
        };
        Sums sums = {};
        for (int64_t i = first; i < last; ++i) add(sums, terms(i, j, load_columns));
        for (size_t k = 0; k < kSums; ++k) {
          float* to = out[k] + j;
          const Vector sum = first == 0 ? sums[k] : load_columns(to) + sums[k];
          if (count == kLanes) {
            store(to, sum);
          } else {
            store_first(to, sum, count);
          }
        }
      }
    }
  });
}

}  // namespace tpc
