#include "compiler/lowering/together.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/lowering/matmul.h"

namespace tpc {
namespace {

// Ranges of addresses, merged where they touch.
class Ranges {
 public:
  void add(uintptr_t begin, uintptr_t end) {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    while (it != ranges_.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges_.erase(it);
    }
    ranges_[begin] = end;
  }
  bool touches(uintptr_t begin, uintptr_t end) const {
    auto it = ranges_.lower_bound(end);
    return it != ranges_.begin() && std::prev(it)->second > begin;
  }

 private:
  std::map<uintptr_t, uintptr_t> ranges_;
};

template <class Action>
void for_each_range(std::span<const LocalTensor> tensors, const Action& action) {
  for (const LocalTensor& tensor : tensors) action(tensor.begin(), tensor.end());
}

// An update writes its first operand.
std::span<const LocalTensor> written(const LocalStep& step) {
  if (step.op == OpKind::kUpdate) return std::span(step.operands).first(1);
  return step.results;
}

size_t num_independent(std::span<const LocalStep> steps) {
  Ranges reads, writes;
  size_t count = 0;
  for (; count < steps.size() && steps[count].op == steps[0].op; ++count) {
    bool is_independent = true;
    for_each_range(steps[count].operands,
                   [&](auto begin, auto end) { is_independent = is_independent && !writes.touches(begin, end); });
    for_each_range(written(steps[count]), [&](auto begin, auto end) {
      is_independent = is_independent && !writes.touches(begin, end) && !reads.touches(begin, end);
    });
    if (!is_independent) break;
    for_each_range(steps[count].operands, [&](auto begin, auto end) { reads.add(begin, end); });
    for_each_range(written(steps[count]), [&](auto begin, auto end) { writes.add(begin, end); });
  }
  return count;
}

}  // namespace

bool is_grouped(OpKind op) {
  return op == OpKind::kAdamW || op == OpKind::kSgd || op == OpKind::kSumSquares || op == OpKind::kUpdate;
}

size_t num_together(std::span<const LocalStep> steps) {
  if (steps[0].op == OpKind::kContract) return fuse_contractions(steps).count;
  if (is_grouped(steps[0].op)) return num_independent(steps);
  return 1;
}

}  // namespace tpc
