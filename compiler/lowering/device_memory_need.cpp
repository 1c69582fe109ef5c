#include "compiler/lowering/device_memory_need.h"

#include <set>

#include "compiler/lowering/rank_steps.h"
#include "compiler/lowering/together.h"
#include "compiler/lowering/workspace.h"

namespace tpc {
namespace {

/// Ranks that hold parts of the same shapes work in as much memory, wherever these parts begin.
std::vector<Shape> local_shapes(const RankPlan& program) {
  std::vector<Shape> shapes;
  for (const Region& region : program.regions) shapes.push_back(region.extents());
  return shapes;
}

}  // namespace

DeviceMemoryNeed device_memory_need(const Plan& plan, const std::vector<RankLoad>& ranks) {
  // Nothing is read or written there; only distances and alignment count.
  auto* arena = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  RankPrograms programs(plan);
  std::set<std::vector<Shape>> seen;
  DeviceMemoryNeed most;
  for (const RankLoad& load : ranks) {
    RankPlan program = programs.of(load.rank);
    if (!seen.insert(local_shapes(program)).second) continue;
    DeviceWorkspace workspace = device_workspace(lower_rank(plan, program, arena, num_together));
    DeviceMemoryNeed need{load.rank, plan.arena_bytes, workspace.compute, workspace.communication};
    if (seen.size() == 1 || need.total() > most.total()) most = need;
  }
  return most;
}

}  // namespace tpc
