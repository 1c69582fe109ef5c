/// Loops over global indices named by letters, and where they find their elements in the parts that a rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/verify/numeric/op_function.h"

namespace tpc::verify {

/// loop.over('i', {0, 4}); size_t x = loop.follow(tensor, "i"); loop.run([&](const int64_t* at, const int64_t* index) {
/// use(tensor.data[at[x]]); }); at[x] is the offset in the x-th tensor that follows, index[k] the global index of the
/// k-th letter. Letters are told outermost first, before tensors follow.
class IndexLoop {
 public:
  IndexLoop() = default;
  IndexLoop(const std::string& letters, const Region& region) { over(letters, region); }

  /// Tensors that follow must have this very range: an index of the formula that a rank has a range of.
  void over(char letter, Interval range);
  void over(const std::string& letters, const Region& region);
  /// Tensors that follow may have more.
  void within(char letter, Interval range);
  void within(const std::string& letters, const Region& region);

  /// One letter of the loop for each dimension of the tensor. Throws OpFault when the tensor's region does not have the
  /// loop's ranges.
  size_t follow(const FieldTensor& tensor, const std::string& letters);

  template <class Visit>
  void run(Visit&& visit) const {
    for (const Interval& range : ranges_) {
      if (range.size() <= 0) return;
    }
    std::vector<int64_t> index;
    for (const Interval& range : ranges_) index.push_back(range.begin);
    std::vector<int64_t> at = first_;
    while (true) {
      visit(static_cast<const int64_t*>(at.data()), static_cast<const int64_t*>(index.data()));
      size_t d = ranges_.size();
      while (d > 0) {
        --d;
        const std::vector<int64_t>& strides = strides_[d];
        for (size_t t = 0; t < at.size(); ++t) at[t] += strides[t];
        if (++index[d] < ranges_[d].end) break;
        if (d == 0) return;
        for (size_t t = 0; t < at.size(); ++t) at[t] -= strides[t] * ranges_[d].size();
        index[d] = ranges_[d].begin;
      }
      if (ranges_.empty()) return;
    }
  }

 private:
  std::string letters_;
  std::vector<Interval> ranges_;
  std::vector<bool> may_have_more_;            ///< per letter
  std::vector<std::vector<int64_t>> strides_;  ///< per letter one a tensor
  std::vector<int64_t> first_;                 ///< per tensor the offset of the loop's first index
};

/// "ABC" for 3 dimensions.
std::string dim_letters(size_t count);
/// The last `count` of them: a tensor with fewer dimensions has the last ones.
std::string last_letters(const std::string& letters, size_t count);
/// `letters` without those at the positions `dims`.
std::string without_dims(const std::string& letters, const std::vector<int64_t>& dims);

/// The tensor as seen with index 0 of `dim` at `shift`.
FieldTensor shifted(FieldTensor tensor, size_t dim, int64_t shift);
/// The tensor with a dimension of one index before `dim`.
FieldTensor with_dim(FieldTensor tensor, size_t dim);

/// Throws OpFault unless the region has all of dimension `dim`.
void require_whole(const FieldTensor& tensor, size_t dim);
/// Throws OpFault unless the two hold the same range.
void require_same_range(const FieldTensor& a, size_t dim_a, const FieldTensor& b, size_t dim_b);
void require_rank(const FieldTensor& tensor, size_t rank);
void fill_zeros(const FieldTensor& tensor);

}  // namespace tpc::verify
