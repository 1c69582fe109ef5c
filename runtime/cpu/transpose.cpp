#include <vector>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/strided_copy.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_transpose(const LocalStep& step) {
  const std::vector<int64_t>& permutation = step.attributes.get_ints("permutation");
  const Region& region = step.results[0].region;
  std::vector<int64_t> loop_dims(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    loop_dims[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  StridedCopy copy(region, index_map(step.operands[0].region, loop_dims, region), trailing_map(region, region));
  return make_kernel([copy = std::move(copy), x = step.operands[0].f32(),
                      y = step.results[0].f32()](const StepContext&) { copy.run(x, y); });
}

}  // namespace tpc
