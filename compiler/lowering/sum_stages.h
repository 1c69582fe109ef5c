/// How a GPU sums a tensor over dimensions: one group of neighbouring dimensions after the other, and where a group is
/// long in parts that are summed again. What lies between stands in working memory.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/core/shape.h"

namespace tpc {

/// `batches` matrices, each of `rows` x `columns`, dense one after the other; cut into chunks of rows.
struct ColumnShape {
  int64_t batches = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rows_of_chunk = 0;
  int64_t chunks = 1;
};

/// Chunks enough to keep a device busy: each is summed by blocks of its own.
ColumnShape chunked_columns(int64_t batches, int64_t rows, int64_t columns);

/// All rows in one chunk.
ColumnShape whole_columns(int64_t batches, int64_t rows, int64_t columns);

/// The sum of the middle of [outer, summed, inner], with the sums of its parts where it is cut. Offsets count floats of
/// the working memory.
struct SumStage {
  int64_t outer = 1;
  int64_t summed = 1;
  int64_t inner = 1;
  int64_t parts_offset = 0;
  int64_t result_offset = 0;

  int64_t num_results() const { return outer * inner; }
  /// Where the summed dimension is not the last.
  ColumnShape columns() const { return chunked_columns(outer, summed, inner); }
  /// Where it is: elements of a part.
  int64_t row_chunk() const;
  int64_t num_parts() const;
};

/// The sum over dimensions `summed` (sorted) of a dense tensor of `shape`; none when it leaves every element as it is.
std::vector<SumStage> sum_stages(const Shape& shape, const std::vector<int64_t>& summed);

/// Working memory of the stages, in floats.
int64_t sum_workspace(const std::vector<SumStage>& stages);

}  // namespace tpc
