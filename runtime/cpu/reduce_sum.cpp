// Sums over dimensions, and repetition along new ones.
#include <algorithm>
#include <vector>

#include "runtime/cpu/column_sums.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/strided_copy.h"

namespace tpc {
namespace {

/// Neighbouring dimensions that are all summed over, or all kept.
struct DimGroup {
  int64_t size = 1;
  bool is_summed = false;
};

std::vector<DimGroup> group_dims(const Shape& shape, const std::vector<int64_t>& summed) {
  std::vector<DimGroup> groups;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_summed = std::ranges::binary_search(summed, static_cast<int64_t>(d));
    if (shape[d] == 1) continue;
    if (groups.empty() || groups.back().is_summed != is_summed) groups.push_back({1, is_summed});
    groups.back().size *= shape[d];
  }
  return groups;
}

/// Sums x over the groups from `level` on into y, which is zero before.
class GroupSum {
 public:
  explicit GroupSum(std::vector<DimGroup> groups) : groups_(std::move(groups)) {
    x_strides_.assign(groups_.size(), 1);
    y_strides_.assign(groups_.size(), 0);
    int64_t x_stride = 1;
    int64_t y_stride = 1;
    for (size_t i = groups_.size(); i > 0; --i) {
      x_strides_[i - 1] = x_stride;
      x_stride *= groups_[i - 1].size;
      if (groups_[i - 1].is_summed) continue;
      y_strides_[i - 1] = y_stride;
      y_stride *= groups_[i - 1].size;
    }
  }

  void add(size_t level, const float* x, float* y) const {
    const size_t left = groups_.size() - level;
    if (left == 0) {
      *y += *x;
      return;
    }
    const DimGroup& group = groups_[level];
    if (left == 1) {
      if (group.is_summed) {
        *y += sum_vectors(
            group.size, [](Vector v) { return v; }, x);
      } else {
        map_vectors(
            group.size, y, [](Vector a, Vector b) { return a + b; }, y, x);
      }
      return;
    }
    for (int64_t i = 0; i < group.size; ++i) add(level + 1, x + i * x_strides_[level], y + i * y_strides_[level]);
  }

  /// The outermost group is kept: its indices may be summed by different threads.
  bool is_kept_outside() const { return groups_.size() > 1 && !groups_[0].is_summed; }
  void run(const float* x, float* y) const {
    if (!is_kept_outside()) {
      add(0, x, y);
      return;
    }
    parallel_ranges(groups_[0].size, x_strides_[0], [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) add(1, x + i * x_strides_[0], y + i * y_strides_[0]);
    });
  }

 private:
  std::vector<DimGroup> groups_;
  std::vector<int64_t> x_strides_;
  std::vector<int64_t> y_strides_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_reduce_sum(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t size = step.results[0].region.num_elements();
  std::vector<DimGroup> groups = group_dims(step.operands[0].region.extents(), step.attributes.get_ints("dims"));
  if (groups.size() == 2 && groups[0].is_summed) {
    const int64_t rows = groups[0].size;
    return make_kernel([=](const StepContext&) {
      column_sums<1>(rows, size, {y},
                     [&](int64_t i, int64_t j, const auto& load_at) { return std::array{load_at(x + i * size + j)}; });
    });
  }
  return make_kernel([=, sum = GroupSum(std::move(groups))](const StepContext&) {
    std::fill_n(y, size, 0.0f);
    sum.run(x, y);
  });
}

std::unique_ptr<Kernel> prepare_broadcast_to(const LocalStep& step) {
  const std::vector<int64_t>& added = step.attributes.get_ints("dims");
  const Region& region = step.results[0].region;
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(region.dims.size()); ++d) {
    if (!std::ranges::binary_search(added, d)) kept.push_back(d);
  }
  StridedCopy copy(region, index_map(step.operands[0].region, kept, region), trailing_map(region, region));
  return make_kernel([copy = std::move(copy), x = step.operands[0].f32(),
                      y = step.results[0].f32()](const StepContext&) { copy.run(x, y); });
}

}  // namespace tpc
