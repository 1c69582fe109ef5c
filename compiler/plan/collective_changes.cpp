#include "compiler/plan/collective_changes.h"

#include <fmt/format.h>

#include <functional>
#include <map>

#include "compiler/plan/repeated_blocks.h"

namespace tpc {
namespace {

/// "P(sum) -> R" on the axes that change. Units of blocks follow from the size of the mesh and say nothing here.
std::string conversion_text(const Plan& plan, const PlanStep& step) {
  Move move = step_move(plan, step);
  auto side = [&](const TensorSharding& sharding) {
    std::string text;
    for (int64_t axis : move.axes) {
      Placement placement = sharding.placements[static_cast<size_t>(axis)];
      placement.unit = 1;
      std::string one = to_string(placement);
      if (text != one) text += (text.empty() ? "" : "/") + one;
    }
    return text;
  };
  return side(move.from) + " -> " + side(move.to);
}

struct Candidate {
  const CollectiveRow* row = nullptr;
  CollectiveSide side;
  int partner = -1;
};

std::vector<Candidate> candidates(const Plan& plan, const Report& report) {
  std::vector<Candidate> list;
  list.reserve(report.collectives.size());
  for (const CollectiveRow& row : report.collectives) {
    std::string conversion = conversion_text(plan, plan.steps[static_cast<size_t>(row.step)]);
    list.push_back(
        {&row, {row.step, row.kind, row.axis, row.group_size, std::move(conversion), row.received_bytes_max, row.why}});
  }
  return list;
}

using Key = std::function<std::string(const Candidate&)>;

/// Pairs those without a partner that have equal keys, in order.
void pair_by(std::vector<Candidate>& before, std::vector<Candidate>& after, const Key& key) {
  std::map<std::string, std::vector<size_t>> waiting;
  for (size_t i = after.size(); i-- > 0;) {
    if (after[i].partner < 0) waiting[key(after[i])].push_back(i);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].partner >= 0) continue;
    auto found = waiting.find(key(before[i]));
    if (found == waiting.end() || found->second.empty()) continue;
    size_t partner = found->second.back();
    found->second.pop_back();
    before[i].partner = static_cast<int>(partner);
    after[partner].partner = static_cast<int>(i);
  }
}

bool is_equal(const CollectiveSide& a, const CollectiveSide& b) {
  return a.kind == b.kind && a.axis == b.axis && a.group_size == b.group_size && a.conversion == b.conversion &&
         a.received_bytes == b.received_bytes;
}

}  // namespace

CollectiveChanges collective_changes(const Plan& before, const Report& before_report, const Plan& after,
                                     const Report& after_report) {
  std::vector<Candidate> first = candidates(before, before_report);
  std::vector<Candidate> second = candidates(after, after_report);
  Key tensor = [](const Candidate& c) {
    return fmt::format("{}|{}", without_number(c.row->tensor), to_string(c.row->phase));
  };
  Key kind = [&](const Candidate& c) { return fmt::format("{}|{}", tensor(c), op_name(c.side.kind)); };
  Key conversion = [&](const Candidate& c) { return fmt::format("{}|{}|{}", kind(c), c.side.axis, c.side.conversion); };
  Key all = [&](const Candidate& c) {
    return fmt::format("{}|{}|{}", conversion(c), c.side.group_size, c.side.received_bytes);
  };
  for (const Key& key : {all, conversion, kind, tensor}) pair_by(first, second, key);

  CollectiveChanges result;
  for (const Candidate& item : first) {
    CollectiveChange change{item.row->tensor, item.row->layer, item.row->phase, item.side, std::nullopt};
    if (item.partner >= 0) change.after = second[static_cast<size_t>(item.partner)].side;
    if (change.after && is_equal(*change.before, *change.after)) {
      ++result.equal;
    } else {
      result.changes.push_back(std::move(change));
    }
  }
  for (const Candidate& item : second) {
    if (item.partner >= 0) continue;
    result.changes.push_back({item.row->tensor, item.row->layer, item.row->phase, std::nullopt, item.side});
  }
  return result;
}

}  // namespace tpc
