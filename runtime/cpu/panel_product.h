/// Products of small matrices that lie anywhere in memory, for attention: what a BLAS call costs is longer than they
/// take.
#pragma once

#include <cstdint>

#include "runtime/cpu/simd.h"

namespace tpc {

/// A matrix by its strides in elements.
struct MatrixView {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

/// Columns of a packed matrix lie in panels of two vectors; the last panel has one when that is enough.
constexpr int64_t kPanelColumns = 2 * kLanes;

/// `columns` rounded up to whole vectors.
constexpr int64_t padded_columns(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }
/// Floats of a packed matrix.
constexpr int64_t packed_size(int64_t rows, int64_t columns) { return rows * padded_columns(columns); }

/// packed = factor * matrix[rows, columns] in panels, columns padded with zeros.
void pack_panels(MatrixView matrix, int64_t rows, int64_t columns, float factor, float* packed);

struct PanelProduct {
  int64_t rows = 0;     ///< of a and c
  int64_t columns = 0;  ///< of b and c
  int64_t inner = 0;    ///< columns of a, rows of b that count
  MatrixView a;
  const float* b = nullptr;  ///< packed
  int64_t b_rows = 0;        ///< rows that b was packed with, >= inner
  int64_t b_columns = 0;     ///< columns that b was packed with; padded, they are >= columns
  float* c = nullptr;
  int64_t c_row_stride = 0;
  bool accumulate = false;  ///< c += a b, else c = a b
};

void multiply(const PanelProduct& product);

}  // namespace tpc
