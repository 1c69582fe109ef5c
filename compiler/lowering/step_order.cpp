#include "compiler/lowering/step_order.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "compiler/core/check.h"

namespace tpc {
namespace {

// The latest step of each queue that did something; -1: none.
using LatestSteps = std::array<int, 2>;
constexpr LatestSteps kNone = {-1, -1};

// For every byte of the arena the latest steps that wrote and read it, as ranges of equal history.
class ArenaHistory {
 public:
  /// `limit` is one past the arena's last byte.
  explicit ArenaHistory(int64_t limit) { ranges_[0] = {}, ranges_[limit] = {}; }

  /// The latest step of queue `other` that [begin, end) has to wait for.
  int latest(int64_t begin, int64_t end, size_t other, bool writes) {
    int latest = -1;
    for_each(begin, end, [&](Uses& uses) {
      latest = std::max(latest, uses.written[other]);
      if (writes) latest = std::max(latest, uses.read[other]);
    });
    return latest;
  }

  void add_read(int64_t begin, int64_t end, size_t queue, int step) {
    for_each(begin, end, [&](Uses& uses) { uses.read[queue] = step; });
  }

  /// What was read and written before is ordered before this step, so its history ends here.
  void add_write(int64_t begin, int64_t end, size_t queue, int step) {
    if (begin >= end) return;
    split(begin);
    split(end);
    Uses uses;
    uses.written[queue] = step;
    ranges_.erase(std::next(ranges_.find(begin)), ranges_.find(end));
    ranges_[begin] = uses;
  }

 private:
  struct Uses {
    LatestSteps written = kNone;
    LatestSteps read = kNone;
  };

  void split(int64_t at) {
    auto next = ranges_.lower_bound(at);
    if (next->first == at) return;
    ranges_.emplace_hint(next, at, std::prev(next)->second);
  }

  template <class Action>
  void for_each(int64_t begin, int64_t end, const Action& action) {
    if (begin >= end) return;
    split(begin);
    split(end);
    for (auto it = ranges_.find(begin); it->first != end; ++it) action(it->second);
  }

  std::map<int64_t, Uses> ranges_;  // by first byte; each reaches to the next
};

}  // namespace

std::string_view to_string(DeviceQueueKind queue) {
  switch (queue) {
    case DeviceQueueKind::kCompute:
      return "compute";
    case DeviceQueueKind::kCommunication:
      return "communication";
  }
  TPC_UNREACHABLE("queue {}", static_cast<int>(queue));
}

std::vector<OrderedStep> order_steps(const Plan& plan) {
  ArenaHistory history(std::max<int64_t>(plan.arena_bytes, 1));
  std::array<int, 2> waited = {-1, -1};  // by queue: the latest step of the other one that it has waited for
  std::vector<OrderedStep> order(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    OrderedStep& ordered = order[i];
    ordered.queue = is_collective(step.op) ? DeviceQueueKind::kCommunication : DeviceQueueKind::kCompute;
    auto own = static_cast<size_t>(ordered.queue);
    size_t other = 1 - own;
    int latest = -1;
    auto range = [&](int tensor) {
      const PlanTensor& t = plan.tensors[static_cast<size_t>(tensor)];
      return std::pair(t.offset, t.offset + t.bytes);
    };
    auto read = [&](int tensor) {
      auto [begin, end] = range(tensor);
      latest = std::max(latest, history.latest(begin, end, other, /*writes=*/false));
    };
    auto write = [&](int tensor) {
      auto [begin, end] = range(tensor);
      latest = std::max(latest, history.latest(begin, end, other, /*writes=*/true));
    };
    for (int operand : step.operands) read(operand);
    for (int result : step.results) write(result);
    // An update writes its first operand.
    if (step.op == OpKind::kUpdate) write(step.operands[0]);
    if (latest > waited[own]) {
      ordered.waits_for = latest;
      waited[own] = latest;
      order[static_cast<size_t>(latest)].is_awaited = true;
    }
    auto index = static_cast<int>(i);
    for (int operand : step.operands) history.add_read(range(operand).first, range(operand).second, own, index);
    for (int result : step.results) history.add_write(range(result).first, range(result).second, own, index);
    if (step.op == OpKind::kUpdate) {
      history.add_write(range(step.operands[0]).first, range(step.operands[0]).second, own, index);
    }
  }
  return order;
}

}  // namespace tpc
