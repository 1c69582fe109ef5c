#include "compiler/plan/check_proof.h"

#include <algorithm>
#include <map>

#include "compiler/plan/plan_classes.h"
#include "compiler/sharding/move_price.h"

namespace tpc {
namespace {

/// What the collectives of a step cost, each at its fullest rank.
int64_t collectives_price(const Plan& plan, const MovePrice& price) {
  PlanClasses classes = classify(plan);
  std::vector<int64_t> of_class;
  for (int example : classes.step_examples) {
    const PlanStep& step = plan.steps[static_cast<size_t>(example)];
    if (!is_collective(step.op)) {
      of_class.push_back(0);
      continue;
    }
    const TensorType& type = plan.tensors[static_cast<size_t>(step.operands[0])].type;
    of_class.push_back(price(step_move(plan, step), type.shape, byte_size(type.dtype), plan.mesh));
  }
  int64_t total = 0;
  for (int step_class : classes.steps) total += of_class[static_cast<size_t>(step_class)];
  return total;
}

/// Ranks by the axes that the user named.
std::map<std::string, int64_t> user_axes(const DeviceMesh& mesh) {
  std::map<std::string, int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size > 1) sizes.try_emplace(std::string(user_axis(axis.name)), 1).first->second *= axis.size;
  }
  return sizes;
}

}  // namespace

void check_proof(const Plan& plan, PlanIssues& issues) {
  auto option = [&](const char* name) -> const std::string* {
    auto found = plan.options.find(name);
    return found == plan.options.end() ? nullptr : &found->second;
  };
  if (const std::string* text = option("mesh")) {
    std::optional<DeviceMesh> asked = parse_mesh(*text);
    if (!asked || user_axes(*asked) != user_axes(plan.mesh))
      issues.add("/options/mesh", fmt::format("the plan is of {}, found \"{}\"", to_string(plan.mesh), *text));
  }
  if (!plan.proof) return;
  const SearchProof& proof = *plan.proof;
  const std::string* strategy = option("strategy");
  if (strategy != nullptr && *strategy != "search")
    issues.add("/proof", fmt::format("only strategy search proves, the plan's is \"{}\"", *strategy));
  if (proof.memory_limit != 0 && proof.memory_limit < proof.memory) {
    issues.add("/proof/memory_limit",
               fmt::format("the plan holds {} by account, found a limit of {}", proof.memory, proof.memory_limit));
  }
  bool is_time = proof.objective == "time";
  if (!is_time && proof.objective != "bytes") {
    issues.add("/proof/objective", fmt::format("wanted \"bytes\" or \"time\", found \"{}\"", proof.objective));
    return;
  }
  std::vector<AxisLink> links;
  if (is_time) {
    const std::string* text = option("links");
    std::optional<std::vector<AxisLink>> parsed = text == nullptr ? std::nullopt : parse_links(*text);
    if (!parsed) {
      issues.add("/proof/objective", "is \"time\", and the plan's options name no links");
      return;
    }
    links = std::move(*parsed);
    for (const auto& [axis, size] : user_axes(plan.mesh)) {
      bool is_linked = std::any_of(links.begin(), links.end(), [&](const AxisLink& link) { return link.axis == axis; });
      if (!is_linked) {
        issues.add("/options/links", fmt::format("has no link of axis \"{}\"", axis));
        return;
      }
    }
  }
  int64_t price = collectives_price(plan, is_time ? MovePrice(links) : MovePrice());
  if (proof.price != price)
    issues.add("/proof/price", fmt::format("the plan's collectives cost {}, found {}", price, proof.price));
  if (proof.bound < 0 || proof.bound > proof.price) {
    issues.add("/proof/bound",
               fmt::format("no plan costs less than the bound, this one costs {}, found {}", proof.price, proof.bound));
  }
}

}  // namespace tpc
