// tpc diff: what two plans have unlike.
#include "compiler/commands.h"
#include "compiler/core/input_file.h"
#include "compiler/plan/plan_difference.h"
#include "compiler/plan/plan_json.h"

namespace tpc {

std::string run_diff(const DiffCommand& command) {
  Plan before = read_plan(read_file(command.before_path, "a plan file"), command.before_path);
  Plan after = read_plan(read_file(command.after_path, "a plan file"), command.after_path);
  PlanDifference found = difference(before, after);
  return command.json ? difference_json(found) : difference_text(found);
}

}  // namespace tpc
