#include "compiler/lowering/sum_stages.h"

#include <algorithm>
#include <span>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

// Blocks of a GPU that are enough to keep it busy.
constexpr int64_t kWantedBlocks = 512;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Neighbouring dimensions that are all kept or all summed.
struct DimGroup {
  int64_t size = 1;
  bool is_summed = false;
};

void append(std::vector<DimGroup>& groups, const DimGroup& next) {
  if (groups.empty() || groups.back().is_summed != next.is_summed) {
    groups.push_back(next);
  } else {
    groups.back().size *= next.size;
  }
}

std::vector<DimGroup> group_dims(const Shape& shape, const std::vector<int64_t>& summed) {
  std::vector<DimGroup> groups;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) append(groups, {shape[d], std::ranges::binary_search(summed, static_cast<int64_t>(d))});
  }
  return groups;
}

int64_t product(std::span<const DimGroup> groups) {
  int64_t size = 1;
  for (const DimGroup& group : groups) size *= group.size;
  return size;
}

}  // namespace

ColumnShape chunked_columns(int64_t batches, int64_t rows, int64_t columns) {
  constexpr int64_t kMinRows = 64;
  const int64_t blocks = batches * ceil_div(columns, 32);
  const int64_t chunks = std::clamp<int64_t>(ceil_div(kWantedBlocks, blocks), 1, ceil_div(rows, kMinRows));
  const int64_t rows_of_chunk = ceil_div(rows, chunks);
  return {batches, rows, columns, rows_of_chunk, ceil_div(rows, rows_of_chunk)};
}

ColumnShape whole_columns(int64_t batches, int64_t rows, int64_t columns) { return {batches, rows, columns, rows, 1}; }

int64_t SumStage::row_chunk() const {
  constexpr int64_t kMinChunk = 4096;
  return std::min(summed, std::max(kMinChunk, ceil_div(summed, ceil_div(kWantedBlocks, outer))));
}

int64_t SumStage::num_parts() const { return inner > 1 ? columns().chunks : ceil_div(summed, row_chunk()); }

std::vector<SumStage> sum_stages(const Shape& shape, const std::vector<int64_t>& summed) {
  TPC_CHECK(num_elements(shape) > 0, "a sum of an empty part {}", to_string(shape));
  std::vector<DimGroup> groups = group_dims(shape, summed);
  std::vector<SumStage> stages;
  int64_t offset = 0;
  while (true) {
    const auto last = std::find_if(groups.rbegin(), groups.rend(), [](const DimGroup& g) { return g.is_summed; });
    if (last == groups.rend()) return stages;
    const size_t index = static_cast<size_t>(groups.rend() - last) - 1;
    const std::span<const DimGroup> all(groups);
    SumStage stage{product(all.first(index)), last->size, product(all.subspan(index + 1)), 0, 0};
    stage.parts_offset = offset;
    offset += stage.num_parts() > 1 ? stage.num_parts() * stage.num_results() : 0;
    stage.result_offset = offset;
    offset += stage.num_results();
    stages.push_back(stage);
    std::vector<DimGroup> left;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i != index) append(left, groups[i]);
    }
    groups = std::move(left);
  }
}

int64_t sum_workspace(const std::vector<SumStage>& stages) {
  return stages.empty() ? 0 : stages.back().result_offset + stages.back().num_results();
}

}  // namespace tpc
