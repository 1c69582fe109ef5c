// tpc calls: what a rank's training step is on a GPU, call by call.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/calls_text.h"
#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/plan/plan_json.h"
#include "compiler/plan/rank_plan.h"

namespace tpc {
namespace {

const std::string kCommand = "tpc calls";

void require_rank(const Plan& plan, int64_t rank) {
  int64_t world = plan.mesh.world_size();
  if (rank < world) return;
  std::string range = world == 1 ? "the only rank is 0" : fmt::format("ranks are 0 to {}", world - 1);
  throw UsageError(kCommand, fmt::format("--rank {}: {} of {}", rank, range, to_string(plan.mesh)));
}

void require_step(const Plan& plan, int64_t step) {
  auto steps = static_cast<int64_t>(plan.steps.size());
  if (step < steps) return;
  throw UsageError(kCommand, fmt::format("--step {}: steps are 0 to {} of the plan", step, steps - 1));
}

bool is_in_layer(const std::string& layer, const std::string& wanted) {
  return layer == wanted || layer.starts_with(wanted + ".");
}

void require_layer(const Plan& plan, const CallsCommand& command) {
  std::vector<std::string> layers;
  for (const PlanStep& step : plan.steps) {
    if (is_in_layer(step.layer, command.layer)) return;
    layers.push_back(step.layer);
  }
  std::string nearest = nearest_word(command.layer, layers);
  throw UserError(
      SourceLoc{command.plan_path, ""},
      fmt::format("the plan has no layer \"{}\"{}", command.layer,
                  nearest.empty() ? "; tpc shard MODEL lists layers" : fmt::format("; did you mean \"{}\"?", nearest)));
}

}  // namespace

std::string run_calls(const CallsCommand& command) {
  Plan plan = read_plan(read_file(command.plan_path, "a plan file"), command.plan_path);
  require_rank(plan, command.rank);
  if (command.step) require_step(plan, *command.step);
  if (!command.layer.empty()) require_layer(plan, command);
  auto filter = [&](const DeviceUnit& unit) {
    if (command.step && (*command.step < unit.first || *command.step >= unit.end)) return false;
    if (command.layer.empty()) return true;
    for (int i = std::max(unit.first, 0); i < unit.end; ++i) {
      if (is_in_layer(plan.steps[static_cast<size_t>(i)].layer, command.layer)) return true;
    }
    return false;
  };
  DeviceCalls calls = device_calls(plan, rank_plan(plan, command.rank));
  if (command.json) return calls_json(plan, calls, filter);
  bool is_filtered = command.step || !command.layer.empty();
  return calls_text(plan, calls, filter, command.all || is_filtered);
}

}  // namespace tpc
