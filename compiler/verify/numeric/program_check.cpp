#include "compiler/verify/numeric/program_check.h"

#include <algorithm>
#include <set>

#include "compiler/verify/flaw.h"

namespace tpc::verify {
namespace {

bool lies_in(const Region& region, const Shape& shape) {
  if (region.dims.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Interval& range = region.dims[d];
    if (range.begin < 0 || range.begin > range.end || range.end > shape[d]) return false;
  }
  return true;
}

void check_regions(const Plan& plan, const RankPlan& program) {
  auto count = static_cast<int>(program.regions.size());
  bool has_all = program.region_of && program.region_of->size() == plan.tensors.size() &&
                 std::all_of(program.region_of->begin(), program.region_of->end(),
                             [&](int region) { return region >= 0 && region < count; });
  if (!has_all) throw_flaw(-1, "rank {} has no part of some tensors", program.rank);
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const Region& region = program.region(static_cast<int>(t));
    if (lies_in(region, plan.tensors[t].type.shape)) continue;
    std::string ranges;
    for (const Interval& range : region.dims) ranges += fmt::format(" [{}, {})", range.begin, range.end);
    throw_flaw(-1, "rank {} is to hold{} of \"{}\", which is {}", program.rank, ranges, plan.tensors[t].name,
               to_string(plan.tensors[t].type));
  }
}

void check_moves(const Plan& plan, const RankPlan& program, int64_t world) {
  auto num_moves = static_cast<int>(program.moves.size());
  for (const RankStep& own : *program.steps) {
    if (own.step < 0 || own.step >= static_cast<int>(plan.steps.size()))
      throw_flaw(-1, "rank {} is to run step {} of {}", program.rank, own.step, plan.steps.size());
    const PlanStep& step = plan.steps[static_cast<size_t>(own.step)];
    if (!is_collective(step.op) && step.op != OpKind::kMask) continue;
    if (own.move < 0 || own.move >= num_moves) throw_flaw(own.step, "rank {} has no group for it", program.rank);
    const RankMove& move = program.moves[static_cast<size_t>(own.move)];
    size_t size = move.group ? move.group->ranks.size() : 0;
    bool has_itself = move.index >= 0 && static_cast<size_t>(move.index) < size &&
                      move.group->ranks[static_cast<size_t>(move.index)] == program.rank;
    if (!has_itself) throw_flaw(own.step, "rank {} is not at position {} of its group", program.rank, move.index);
    std::set<int64_t> members;
    for (int64_t member : move.group->ranks) {
      if (member < 0 || member >= world || !members.insert(member).second)
        throw_flaw(own.step, "rank {} makes it with rank {}, which is another member or none of {}", program.rank,
                   member, world);
    }
    if (is_collective(step.op) && (move.group->inputs.size() != size || move.group->outputs.size() != size))
      throw_flaw(own.step, "rank {} does not know what the {} ranks of its group hold", program.rank, size);
  }
}

}  // namespace

void check_programs(const Plan& plan, std::span<const RankPlan> programs) {
  int64_t world = plan.mesh.world_size();
  if (static_cast<int64_t>(programs.size()) != world)
    throw_flaw(-1, "there are {} programs for {} ranks", programs.size(), world);
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const RankPlan& program = programs[rank];
    if (program.rank != static_cast<int64_t>(rank))
      throw_flaw(-1, "the program of rank {} is rank {}'s", rank, program.rank);
    check_regions(plan, program);
    if (!program.steps) throw_flaw(-1, "rank {} has no steps", program.rank);
    check_moves(plan, program, world);
  }
}

}  // namespace tpc::verify
