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

template <int kRows, int kVectors>
void multiply_tile(const Tile& tile) {
  Vector sums[kRows][kVectors] = {};
  const float* a = tile.a;
  const float* b = tile.b;
  for (int64_t p = 0; p < tile.inner; ++p, a += tile.a_column_stride, b += tile.b_row_stride) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Vector factor = broadcast(a[r * tile.a_row_stride]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_add(factor, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* c = tile.c + r * tile.c_row_stride + v * kLanes;
      const int64_t columns = tile.columns - v * kLanes;
      if (columns >= kLanes) {
        store(c, tile.accumulate ? load(c) + sums[r][v] : sums[r][v]);
      } else if (columns > 0) {
        store_first(c, tile.accumulate ? load_first(c, columns) + sums[r][v] : sums[r][v], columns);
      }
    }
  }
}

template <int kRows>
void multiply_rows(Tile& tile, int64_t& rows) {
  for (; rows >= kRows; rows -= kRows) {
    if (tile.columns > kLanes) {
      multiply_tile<kRows, 2>(tile);
    } else {
      multiply_tile<kRows, 1>(tile);
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
