#include "compiler/lowering/matrix_layout.h"

#include <utility>

#include "compiler/core/check.h"

namespace tpc {

TermLayout::TermLayout(std::string term, Shape sizes)
    : term_(std::move(term)), sizes_(std::move(sizes)), strides_(row_major_strides(sizes_)) {
  TPC_CHECK(term_.size() == sizes_.size(), "\"{}\" names {} dimensions", term_, sizes_.size());
}

int64_t TermLayout::size(std::string_view letters) const {
  int64_t product = 1;
  for (char letter : letters) product *= size(letter);
  return product;
}

std::optional<int64_t> TermLayout::merged_stride(std::string_view letters) const {
  int64_t inner = 0;
  int64_t next = 0;
  for (size_t i = letters.size(); i > 0; --i) {
    const char letter = letters[i - 1];
    if (size(letter) == 1) continue;
    if (inner == 0) {
      inner = stride(letter);
    } else if (stride(letter) != next) {
      return std::nullopt;
    }
    next = stride(letter) * size(letter);
  }
  return inner;
}

std::optional<MatrixLayout> TermLayout::layout(std::string_view batch, std::string_view rows,
                                               std::string_view columns) const {
  const std::optional<int64_t> row = merged_stride(rows);
  const std::optional<int64_t> column = merged_stride(columns);
  if (!row || !column) return std::nullopt;
  MatrixLayout result;
  for (char letter : batch) result.batch.push_back(stride(letter));
  result.column = *column != 0 ? *column : (*row == 1 ? size(rows) : 1);
  result.row = *row != 0 ? *row : (result.column == 1 ? size(columns) : 1);
  if (result.row != 1 && result.column != 1) return std::nullopt;
  return result;
}

TermLayout TermLayout::reordered(std::string_view term) const {
  Shape sizes;
  for (char letter : term) sizes.push_back(size(letter));
  return {std::string(term), std::move(sizes)};
}

ReorderedCopy reordered_copy(const TermLayout& from, const TermLayout& to) {
  ReorderedCopy copy;
  copy.loop = whole_region(to.sizes());
  for (char letter : to.term()) {
    copy.from.strides.push_back(from.stride(letter));
    copy.to.strides.push_back(to.stride(letter));
  }
  return copy;
}

}  // namespace tpc
