// Tensors one after the other along a dimension, or stacked along a new one.
#include <utility>
#include <vector>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/strided_copy.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_concat(const LocalStep& step) {
  const size_t dim = static_cast<size_t>(step.attributes.get_int("dim"));
  const bool is_stack = step.attributes.get_bool("stack");
  std::vector<std::pair<StridedCopy, const float*>> copies;
  int64_t start = 0;
  for (const LocalTensor& x : step.operands) {
    Region part = x.region;
    if (is_stack) part.dims.insert(part.dims.begin() + static_cast<std::ptrdiff_t>(dim), Interval{0, 1});
    const Region held = shifted(part, dim, start);
    start += is_stack ? 1 : x.type.shape[dim];
    copies.emplace_back(StridedCopy(held, trailing_map(held, held), trailing_map(step.results[0].region, held)),
                        x.f32());
  }
  return make_kernel([copies = std::move(copies), y = step.results[0].f32()](const StepContext&) {
    for (const auto& [copy, x] : copies) copy.run(x, y);
  });
}

}  // namespace tpc
