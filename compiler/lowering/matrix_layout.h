/// The tensors of a contraction as (batched) matrices in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/core/shape.h"
#include "compiler/ops/region_index.h"

namespace tpc {

/// Matrices [rows, columns], one a batch index; strides in elements.
struct MatrixLayout {
  /// One a batch letter.
  Shape batch;
  int64_t row = 1;
  int64_t column = 1;
  bool operator==(const MatrixLayout&) const = default;
};

/// The letters of a dense row-major tensor's term, with its local sizes and strides.
class TermLayout {
 public:
  TermLayout(std::string term, Shape sizes);

  const std::string& term() const { return term_; }
  const Shape& sizes() const { return sizes_; }
  int64_t size(char letter) const { return sizes_[term_.find(letter)]; }
  int64_t stride(char letter) const { return strides_[term_.find(letter)]; }
  /// Product; 1 for none.
  int64_t size(std::string_view letters) const;

  /// The stride with which one index runs over all `letters` in that order; 0 for one element; nullopt when none does.
  std::optional<int64_t> merged_stride(std::string_view letters) const;
  /// nullopt unless rows or columns lie together. A stride that no index uses is the one that makes the layout plain.
  std::optional<MatrixLayout> layout(std::string_view batch, std::string_view rows, std::string_view columns) const;

  /// The same tensor, dense with its letters in another order.
  TermLayout reordered(std::string_view term) const;

 private:
  std::string term_;
  Shape sizes_;
  Shape strides_;
};

/// A copy between two dense orders of one tensor's letters, as a loop over the written side.
struct ReorderedCopy {
  Region loop;
  IndexMap from;
  IndexMap to;
};

/// From `from`'s order into that of `to`, which has the same letters.
ReorderedCopy reordered_copy(const TermLayout& from, const TermLayout& to);

}  // namespace tpc
