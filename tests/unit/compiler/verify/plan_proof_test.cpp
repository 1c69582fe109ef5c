// What is not the model's step is not proved: one fault in a plan, of every kind, at every place where it can be made.
#include "compiler/verify/plan_proof.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/check_plan.h"
#include "passes/pipeline.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

using Visit = std::function<void(const Plan& faulty, const std::string& what)>;

/// Steps that read `from` read `to`.
void read_instead(Plan& plan, int from, int to) {
  for (PlanStep& step : plan.steps) {
    for (int& operand : step.operands) operand = operand == from ? to : operand;
  }
  for (auto& [name, tensor] : plan.outputs) tensor = tensor == from ? to : tensor;
}

void leave_out_moves(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!is_move(plan.steps[i].op)) continue;
    Plan faulty = plan;
    read_instead(faulty, plan.steps[i].results[0], plan.steps[i].operands[0]);
    faulty.steps.erase(faulty.steps.begin() + static_cast<std::ptrdiff_t>(i));
    visit(faulty, "left out: step " + std::to_string(i));
  }
}

void swap_operands(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.op == OpKind::kAdd) continue;
    for (size_t k = 0; k + 1 < step.operands.size(); ++k) {
      if (step.operands[k] == step.operands[k + 1]) continue;
      Plan faulty = plan;
      std::swap(faulty.steps[i].operands[k], faulty.steps[i].operands[k + 1]);
      visit(faulty, "operands swapped: step " + std::to_string(i));
    }
  }
}

/// Each operand by every other tensor of its type that is made before.
void read_other_tensors(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (size_t k = 0; k < plan.steps[i].operands.size(); ++k) {
      int operand = plan.steps[i].operands[k];
      const PlanTensor& read = plan.tensors[static_cast<size_t>(operand)];
      for (size_t j = 0; j < i; ++j) {
        for (int other : plan.steps[j].results) {
          const PlanTensor& instead = plan.tensors[static_cast<size_t>(other)];
          if (other == operand || instead.type != read.type || instead.sharding != read.sharding) continue;
          Plan faulty = plan;
          faulty.steps[i].operands[k] = other;
          visit(faulty, "other operand: step " + std::to_string(i) + " reads " + instead.name);
        }
      }
    }
  }
}

void change_attributes(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto& [name, value] : plan.steps[i].attributes.items()) {
      Plan faulty = plan;
      Attribute changed = value;
      if (bool* flag = std::get_if<bool>(&changed)) *flag = !*flag;
      if (int64_t* number = std::get_if<int64_t>(&changed)) ++*number;
      if (double* number = std::get_if<double>(&changed)) *number *= 1.5;
      if (changed == value) continue;
      faulty.steps[i].attributes.set(name, changed);
      visit(faulty, "attribute " + name + ": step " + std::to_string(i));
    }
  }
}

void change_placements(const Plan& plan, const Visit& visit) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
      std::vector<Placement> others{Placement::replicate(), Placement::partial(), Placement::partial(ReduceOp::kMax)};
      for (size_t d = 0; d < tensor.type.shape.size(); ++d) {
        bool can_split = tensor.type.shape[d] >= plan.mesh.world_size();
        if (can_split) others.push_back(Placement::shard(static_cast<int64_t>(d)));
      }
      for (const Placement& other : others) {
        if (other == tensor.sharding.placements[axis]) continue;
        Plan faulty = plan;
        faulty.tensors[t].sharding.placements[axis] = other;
        visit(faulty, "placement: " + tensor.name + " " + to_string(other));
      }
    }
  }
}

void leave_out_ends(const Plan& plan, const Visit& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kUpdate) continue;
    Plan faulty = plan;
    faulty.steps.erase(faulty.steps.begin() + static_cast<std::ptrdiff_t>(i));
    visit(faulty, "update left out: step " + std::to_string(i));
    faulty = plan;
    faulty.steps.push_back(plan.steps[i]);
    visit(faulty, "update made twice: step " + std::to_string(i));
  }
  for (const auto& [name, tensor] : plan.outputs) {
    Plan faulty = plan;
    faulty.outputs.erase(name);
    visit(faulty, "output left out: " + name);
  }
}

/// A plan that is loaded must be sound first: what reads a buffer that is another tensor's by then is refused there.
bool is_sound(const Plan& plan) {
  try {
    check_plan(plan, "plan.json");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void check_faults(const std::string& model, const testing::MeshCase& mesh) {
  const Graph step = testing::model_step(model, {{"batch", 4}});
  const verify::ValueNumbers values(step);
  Plan plan = testing::compile_model(model, {{"batch", 4}}, mesh).plan;
  REQUIRE(!verify::find_flaw(values, plan));
  int num_faults = 0;
  auto visit = [&](const Plan& faulty, const std::string& what) {
    ++num_faults;
    bool is_refused = verify::find_flaw(values, faulty) || !is_sound(faulty);
    CHECK_MESSAGE(is_refused, model << " on " << to_string(mesh.mesh) << ", " << what);
  };
  for (auto make :
       {leave_out_moves, swap_operands, read_other_tensors, change_attributes, change_placements, leave_out_ends})
    make(plan, visit);
  MESSAGE(num_faults << " faults in " << model << " on " << to_string(mesh.mesh));
}

}  // namespace

TEST_CASE("faulty plans of a GPT with its tokens whole are refused") {
  check_faults("small_gpt", {"", DeviceMesh({{"tp", 2}})});
}

TEST_CASE("faulty sequence-parallel plans are refused") {
  check_faults("tiny_gpt", {"", DeviceMesh({{"tp", 4}}), true});
}

TEST_CASE("faulty plans of a Llama on two axes with ZeRO 3 are refused") {
  check_faults("llama_tiny", {"", DeviceMesh({{"dp", 2}, {"tp", 2}}), false, 3});
}

TEST_CASE("faulty searched plans on uneven ranks are refused") {
  check_faults("tiny_gpt", {"", DeviceMesh({{"tp", 3}}), false, 0, "search"});
}

}  // namespace tpc
