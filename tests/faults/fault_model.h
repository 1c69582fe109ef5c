/// Models and plans that faults of other systems are tried on.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "compiler/plan/plan.h"
#include "tests/support/program.h"

namespace tpc::testing {

/// The text of a model file, and sizes that replace its own.
struct FaultModel {
  std::string text;
  std::map<std::string, int64_t> dims;
};

/// models/<name>.json.
FaultModel shipped(const std::string& name, std::map<std::string, int64_t> dims = {});
/// The same model with the first `from` in its text replaced; no such text is an InternalError.
FaultModel with(FaultModel model, const std::string& from, const std::string& to);

/// `mesh` as on the command line: "dp=2,tp=2".
MeshCase on(const char* mesh, bool sequence_parallel = false, int zero_stage = 0);
MeshCase searched_on(const char* mesh);

Plan plan_of(const FaultModel& model, const MeshCase& mesh);
/// What the plans of the model must compute.
Graph one_rank_step(const FaultModel& model);
/// The messages of the compiler, a line each; "" when it compiles.
std::string compile_error(const FaultModel& model, const MeshCase& mesh);

/// Trains some steps on the mesh and on one rank, in double: the first loss, gradient, weight or state that differs by
/// more than 1e-9, or "". Replicas that differ in any bit are a SimulationError.
std::string difference_from_one_rank(const FaultModel& model, const MeshCase& mesh, int steps = 2, bool ignore = false);

/// Why tprun refuses a plan: what check_plan says, or else the static proof of plan, buffers and ranks' programs; ""
/// when neither objects.
std::string refusal(const FaultModel& model, const Plan& plan);
/// What the static proof of the plan alone says.
std::string proof_flaw(const FaultModel& model, const Plan& plan);

/// What the plan computes otherwise than the model, executed in exact numbers; "" when nothing.
std::string numeric_difference(const FaultModel& model, const Plan& plan);

const PlanTensor& tensor_named(const Plan& plan, const std::string& name);
/// Index of the tensor; -1 when the plan has none of this name.
int find_tensor(const Plan& plan, const std::string& name);
/// Indices of the steps that `wanted` holds of.
std::vector<size_t> find_steps(const Plan& plan, const std::function<bool(const PlanStep&)>& wanted);
/// Indices of the collectives that read the tensor of this name.
std::vector<size_t> collectives_of(const Plan& plan, const std::string& name);
/// The tensor that the optimizer takes as the gradient of a parameter, by the parameter's name.
std::map<std::string, std::string> gradients(const Plan& plan);
/// The plan without a collective or local move: who read its result reads its operand, which has a buffer of its own so
/// that it lasts.
Plan without_move(Plan plan, size_t step);

}  // namespace tpc::testing
