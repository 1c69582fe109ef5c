#include "tests/mutation/rank_faults.h"

#include <fmt/format.h>

namespace tpc::testing {
namespace {

/// Own copies of what ranks share.
MoveGroup& own_group(RankPlan& program, size_t move) {
  auto copy = std::make_shared<MoveGroup>(*program.moves[move].group);
  program.moves[move].group = copy;
  return *copy;
}

/// One tensor of one step only: the region gets a place of its own.
void alter_regions(const RankPlan& program, const VisitProgram& visit) {
  for (size_t t = 0; t < program.region_of->size(); ++t) {
    const Region& region = program.region(static_cast<int>(t));
    for (size_t d = 0; d < region.dims.size(); ++d) {
      for (int64_t by : {-1, 1}) {
        for (bool is_begin : {false, true}) {
          RankPlan altered = program;
          auto places = std::make_shared<std::vector<int>>(*program.region_of);
          (*places)[t] = static_cast<int>(altered.regions.size());
          altered.region_of = places;
          altered.regions.push_back(region);
          Interval& range = altered.regions.back().dims[d];
          (is_begin ? range.begin : range.end) += by;
          visit(altered, fmt::format("region of tensor {}, dimension {}", t, d));
        }
      }
    }
  }
}

void alter_order(const RankPlan& program, const VisitProgram& visit) {
  for (size_t i = 0; i < program.steps->size(); ++i) {
    RankPlan altered = program;
    std::vector<RankStep>* steps = &own_steps(altered);
    steps->erase(steps->begin() + static_cast<std::ptrdiff_t>(i));
    visit(altered, fmt::format("step {} left out", i));
    altered = program;
    steps = &own_steps(altered);
    steps->insert(steps->begin() + static_cast<std::ptrdiff_t>(i), (*steps)[i]);
    visit(altered, fmt::format("step {} twice", i));
    if (i + 1 == program.steps->size()) continue;
    altered = program;
    steps = &own_steps(altered);
    std::swap((*steps)[i], (*steps)[i + 1]);
    visit(altered, fmt::format("steps {} and {} swapped", i, i + 1));
  }
}

void alter_moves(const RankPlan& program, int64_t world, const VisitProgram& visit) {
  for (size_t i = 0; i < program.steps->size(); ++i) {
    if ((*program.steps)[i].move < 0) {
      RankPlan altered = program;
      own_steps(altered)[i].move = 0;
      visit(altered, fmt::format("step {} with a group", i));
      continue;
    }
    for (int other = -1; other <= static_cast<int>(program.moves.size()); ++other) {
      // Two moves may be the same to the last byte.
      bool is_move = other >= 0 && other < static_cast<int>(program.moves.size());
      const RankMove& own = *program.move((*program.steps)[i]);
      if (is_move) {
        const RankMove& instead = program.moves[static_cast<size_t>(other)];
        if (*instead.group == *own.group && instead.received_bytes == own.received_bytes) continue;
      }
      RankPlan altered = program;
      own_steps(altered)[i].move = other;
      visit(altered, fmt::format("step {} as move {}", i, other));
    }
  }
  for (size_t m = 0; m < program.moves.size(); ++m) {
    const MoveGroup& group = *program.moves[m].group;
    auto alter = [&](const std::string& what, const std::function<void(RankPlan&, RankMove&)>& change) {
      RankPlan altered = program;
      change(altered, altered.moves[m]);
      visit(altered, fmt::format("move {}: {}", m, what));
    };
    alter("next index", [](RankPlan&, RankMove& move) { ++move.index; });
    alter("bytes", [](RankPlan&, RankMove& move) { move.received_bytes += 4; });
    alter("no group", [](RankPlan&, RankMove& move) { move.group = nullptr; });
    for (size_t r = 0; r < group.ranks.size(); ++r) {
      alter("other rank", [&](RankPlan& p, RankMove&) { own_group(p, m).ranks[r] = (group.ranks[r] + 1) % world; });
      alter("rank left out", [&](RankPlan& p, RankMove&) {
        MoveGroup& own = own_group(p, m);
        own.ranks.erase(own.ranks.begin() + static_cast<std::ptrdiff_t>(r));
      });
      if (r + 1 < group.ranks.size())
        alter("ranks swapped", [&](RankPlan& p, RankMove&) {
          MoveGroup& own = own_group(p, m);
          std::swap(own.ranks[r], own.ranks[r + 1]);
        });
    }
    for (auto regions : {&MoveGroup::inputs, &MoveGroup::outputs}) {
      for (size_t r = 0; r < (group.*regions).size(); ++r) {
        for (size_t d = 0; d < (group.*regions)[r].dims.size(); ++d) {
          alter("a member's region", [&](RankPlan& p, RankMove&) { ++(own_group(p, m).*regions)[r].dims[d].end; });
          alter("a member's region", [&](RankPlan& p, RankMove&) { --(own_group(p, m).*regions)[r].dims[d].begin; });
        }
      }
    }
  }
}

}  // namespace

std::vector<RankStep>& own_steps(RankPlan& program) {
  auto copy = std::make_shared<std::vector<RankStep>>(*program.steps);
  program.steps = copy;
  return *copy;
}

void make_rank_faults(const RankPlan& program, int64_t world, const VisitProgram& visit) {
  alter_regions(program, visit);
  alter_order(program, visit);
  alter_moves(program, world, visit);
}

}  // namespace tpc::testing
