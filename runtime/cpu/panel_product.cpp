#include "runtime/cpu/panel_product.h"

#include <algorithm>

namespace tpc {
namespace {

// Rows of a tile: with two vectors a row its sums fill half of the vector registers.
#if defined(__AVX512F__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif
// Rows of b per pass, so that a panel's part stays in the first-level cache while all rows of a go by.
constexpr int64_t kInnerBlock = 128;

struct Tile {
  const float* a;
  int64_t a_row_stride;
  int64_t a_column_stride;
  const float* b;
  int64_t b_row_stride;
  int64_t inner;
  float* c;
  int64_t c_row_stride;
  int64_t columns;
  bool accumulate;
};

/// kPartial: the last vector has fewer than kLanes columns.
template <int kRows, int kVectors, bool kPartial>
void multiply_tile(const Tile& tile) {
  // Loops over rows and vectors are unrolled, else the sums would not stay in registers.
  const int64_t rest = tile.columns - (kVectors - 1) * kLanes;
  Vector sums[kRows][kVectors] = {};
  if (tile.accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float* c = tile.c + r * tile.c_row_stride;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const bool is_partial = kPartial && v == kVectors - 1;
        sums[r][v] = is_partial ? load_first(c + v * kLanes, rest) : load(c + v * kLanes);
      }
    }
  }
  const float* a = tile.a;
  const float* b = tile.b;
  for (int64_t p = 0; p < tile.inner; ++p, a += tile.a_column_stride, b += tile.b_row_stride) {
    Vector row[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector factor = broadcast(a[r * tile.a_row_stride]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(factor, row[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* c = tile.c + r * tile.c_row_stride;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if (kPartial && v == kVectors - 1) {
        store_first(c + v * kLanes, sums[r][v], rest);
      } else {
        store(c + v * kLanes, sums[r][v]);
      }
    }
  }
}

template <int kRows>
void multiply_rows(Tile& tile, int64_t& rows) {
  const bool is_partial = tile.columns % kLanes != 0;
  for (; rows >= kRows; rows -= kRows) {
    if (tile.columns > kLanes) {
      is_partial ? multiply_tile<kRows, 2, true>(tile) : multiply_tile<kRows, 2, false>(tile);
    } else {
      is_partial ? multiply_tile<kRows, 1, true>(tile) : multiply_tile<kRows, 1, false>(tile);
    }
    tile.a += kRows * tile.a_row_stride;
    tile.c += kRows * tile.c_row_stride;
  }
}

}  // namespace

void pack_panels(MatrixView matrix, int64_t rows, int64_t columns, float factor, float* packed) {
  for (int64_t first = 0; first < columns; first += kPanelColumns) {
    const int64_t used = std::min(kPanelColumns, columns - first);
    const int64_t width = padded_columns(used);
    const float* from = matrix.data + first * matrix.column_stride;
    if (matrix.column_stride == 1) {
      for (int64_t i = 0; i < rows; ++i) {
        map_vectors(
            used, packed + i * width, [&](Vector x) { return x * factor; }, from + i * matrix.row_stride);
        std::fill(packed + i * width + used, packed + (i + 1) * width, 0.0f);
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
          packed[i * width + j] = j < used ? factor * from[i * matrix.row_stride + j * matrix.column_stride] : 0.0f;
        }
      }
    }
    packed += rows * width;
  }
}

void multiply(const PanelProduct& product) {
  for (int64_t inner = 0; inner < product.inner || inner == 0; inner += kInnerBlock) {
    for (int64_t first = 0; first < product.columns; first += kPanelColumns) {
      const int64_t columns = std::min(kPanelColumns, product.columns - first);
      const int64_t panel = padded_columns(std::min(kPanelColumns, product.b_columns - first));
      Tile tile = {
          .a = product.a.data + inner * product.a.column_stride,
          .a_row_stride = product.a.row_stride,
          .a_column_stride = product.a.column_stride,
          .b = product.b + first * product.b_rows + inner * panel,
          .b_row_stride = panel,
          .inner = std::min(kInnerBlock, product.inner - inner),
          .c = product.c + first,
          .c_row_stride = product.c_row_stride,
          .columns = columns,
          .accumulate = product.accumulate || inner > 0,
      };
      int64_t rows = product.rows;
      multiply_rows<kTileRows>(tile, rows);
      multiply_rows<2>(tile, rows);
      multiply_rows<1>(tile, rows);
    }
  }
}

}  // namespace tpc
