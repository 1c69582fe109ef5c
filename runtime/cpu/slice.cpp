// A range of one dimension, and its transpose: zeros around.
#include <algorithm>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/strided_copy.h"

namespace tpc {
namespace {

/// From `large` to `small` or back, where `small` holds indices [start, start + its size) of dimension `dim` of
/// `large`, and lacks the dimension when its rank is one less.
StridedCopy copy_of_range(const Region& large, const Region& small, const Attributes& attributes, bool to_small) {
  const size_t dim = static_cast<size_t>(attributes.get_int("dim"));
  Region loop = small;
  if (small.dims.size() < large.dims.size()) {
    loop.dims.insert(loop.dims.begin() + static_cast<std::ptrdiff_t>(dim), Interval{0, 1});
  }
  const IndexMap of_large = trailing_map(shifted(large, dim, -attributes.get_int("start")), loop);
  const IndexMap of_small = trailing_map(loop, loop);
  return to_small ? StridedCopy(loop, of_large, of_small) : StridedCopy(loop, of_small, of_large);
}

}  // namespace

std::unique_ptr<Kernel> prepare_slice(const LocalStep& step) {
  StridedCopy copy = copy_of_range(step.operands[0].region, step.results[0].region, step.attributes, /*to_small=*/true);
  return make_kernel([copy = std::move(copy), x = step.operands[0].f32(),
                      y = step.results[0].f32()](const StepContext&) { copy.run(x, y); });
}

std::unique_ptr<Kernel> prepare_pad(const LocalStep& step) {
  StridedCopy copy =
      copy_of_range(step.results[0].region, step.operands[0].region, step.attributes, /*to_small=*/false);
  const int64_t size = step.results[0].region.num_elements();
  return make_kernel(
      [copy = std::move(copy), size, x = step.operands[0].f32(), y = step.results[0].f32()](const StepContext&) {
        std::fill_n(y, size, 0.0f);
        copy.run(x, y);
      });
}

}  // namespace tpc
