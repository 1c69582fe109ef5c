#include "compiler/verify/numeric/index_loop.h"

#include <fmt/format.h>

#include <algorithm>

namespace tpc::verify {

void IndexLoop::over(char letter, Interval range) {
  within(letter, range);
  may_have_more_.back() = false;
}

void IndexLoop::within(char letter, Interval range) {
  letters_ += letter;
  ranges_.push_back(range);
  may_have_more_.push_back(true);
  strides_.emplace_back();
}

void IndexLoop::over(const std::string& letters, const Region& region) {
  for (size_t d = 0; d < letters.size(); ++d) over(letters[d], region.dims[d]);
}

void IndexLoop::within(const std::string& letters, const Region& region) {
  for (size_t d = 0; d < letters.size(); ++d) within(letters[d], region.dims[d]);
}

size_t IndexLoop::follow(const FieldTensor& tensor, const std::string& letters) {
  require_rank(tensor, letters.size());
  for (std::vector<int64_t>& strides : strides_) strides.push_back(0);
  Shape strides = row_major_strides(tensor.region.extents());
  int64_t first = 0;
  for (size_t d = 0; d < letters.size(); ++d) {
    const Interval& held = tensor.region.dims[d];
    size_t letter = letters_.find(letters[d]);
    const Interval& needed = ranges_[letter];
    bool has_it = held.begin <= needed.begin && needed.end <= held.end;
    if (!has_it || (!may_have_more_[letter] && held != needed)) {
      throw OpFault{fmt::format("needs [{}, {}) of dimension {} of \"{}\" and has [{}, {})", needed.begin, needed.end,
                                d, tensor.name, held.begin, held.end)};
    }
    first += (needed.begin - held.begin) * strides[d];
    strides_[letter].back() += strides[d];
  }
  first_.push_back(first);
  return first_.size() - 1;
}

std::string dim_letters(size_t count) {
  std::string letters;
  for (size_t i = 0; i < count; ++i) letters += static_cast<char>('A' + i);
  return letters;
}

std::string last_letters(const std::string& letters, size_t count) {
  return letters.substr(letters.size() - std::min(count, letters.size()));
}

std::string without_dims(const std::string& letters, const std::vector<int64_t>& dims) {
  std::string kept;
  for (size_t d = 0; d < letters.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end()) kept += letters[d];
  }
  return kept;
}

FieldTensor shifted(FieldTensor tensor, size_t dim, int64_t shift) {
  tensor.region.dims[dim].begin += shift;
  tensor.region.dims[dim].end += shift;
  return tensor;
}

FieldTensor with_dim(FieldTensor tensor, size_t dim) {
  auto at = static_cast<std::ptrdiff_t>(dim);
  tensor.shape.insert(tensor.shape.begin() + at, 1);
  tensor.region.dims.insert(tensor.region.dims.begin() + at, {0, 1});
  return tensor;
}

void require_whole(const FieldTensor& tensor, size_t dim) {
  const Interval& held = tensor.region.dims[dim];
  if (held.begin <= 0 && held.end >= tensor.shape[dim]) return;
  throw OpFault{fmt::format("needs all {} of dimension {} of \"{}\" and has [{}, {})", tensor.shape[dim], dim,
                            tensor.name, held.begin, held.end)};
}

void require_same_range(const FieldTensor& a, size_t dim_a, const FieldTensor& b, size_t dim_b) {
  const Interval& first = a.region.dims[dim_a];
  const Interval& second = b.region.dims[dim_b];
  if (first == second) return;
  throw OpFault{
      fmt::format("has [{}, {}) of dimension {} of \"{}\" and [{}, {}) of dimension {} of \"{}\", which are one",
                  first.begin, first.end, dim_a, a.name, second.begin, second.end, dim_b, b.name)};
}

void require_rank(const FieldTensor& tensor, size_t rank) {
  if (tensor.region.dims.size() == rank) return;
  throw OpFault{
      fmt::format("needs {} dimensions of \"{}\", which has {}", rank, tensor.name, tensor.region.dims.size())};
}

void fill_zeros(const FieldTensor& tensor) { std::fill_n(tensor.data, tensor.region.num_elements(), Element{0}); }

}  // namespace tpc::verify
