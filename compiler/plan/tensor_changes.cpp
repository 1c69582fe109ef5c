#include "compiler/plan/tensor_changes.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/plan/model_words.h"
#include "compiler/plan/repeated_blocks.h"

namespace tpc {
namespace {

size_t position(int index) { return static_cast<size_t>(index); }

/// The tensors of a plan that no move made, each with the step that tells its layer.
class NamedTensors {
 public:
  explicit NamedTensors(const Plan& plan) : plan_(plan), words_(plan), steps_(plan.tensors.size(), nullptr) {
    std::vector<bool> is_moved(plan.tensors.size(), false);
    for (const PlanStep& step : plan.steps) {
      for (int operand : step.operands) {
        // The first that reads a leaf.
        if (steps_[position(operand)] == nullptr) steps_[position(operand)] = &step;
      }
      for (int result : step.results) {
        steps_[position(result)] = &step;
        is_moved[position(result)] = is_move(step.op);
      }
    }
    std::map<std::string, int> names;
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      if (is_moved[i]) continue;
      // Numbers that passes gave say nothing: of several with one name the first stands for the first.
      std::string name(without_number(plan.tensors[i].name));
      int repeats = names[name]++;
      in_order_.emplace_back(repeats == 0 ? name : fmt::format("{}~{}", name, repeats), i);
      index_.insert(in_order_.back());
    }
    for (const MeshAxis& axis : plan.mesh.axes()) axes_.emplace(user_axis(axis.name));
  }

  /// Name and index of each.
  const std::vector<std::pair<std::string, size_t>>& in_order() const { return in_order_; }
  std::optional<size_t> find(const std::string& name) const {
    auto found = index_.find(name);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  const PlanTensor& tensor(size_t index) const { return plan_.tensors[index]; }
  std::string layer(size_t index) const { return steps_[index] == nullptr ? "" : steps_[index]->layer; }
  std::string words(size_t index) const { return words_.placement(tensor(index), origin(index)); }

  /// Placements other than whole, by axis; sub-axes that agree are one axis. Left out is what an axis that `other`
  /// lacks does by the rule. Units of blocks follow from the size of the mesh and say nothing.
  std::vector<std::pair<std::string, Placement>> placements(size_t index, const NamedTensors& other) const {
    const PlanTensor& found = tensor(index);
    std::vector<std::pair<std::string, Placement>> list;
    const std::vector<MeshAxis>& axes = plan_.mesh.axes();
    for (size_t first = 0; first < axes.size();) {
      std::string user(user_axis(axes[first].name));
      bool has_rule = user == "dp" && other.axes_.count(user) == 0;
      bool is_one = true;
      size_t end = first;
      for (; end < axes.size() && user_axis(axes[end].name) == user; ++end) {
        is_one = is_one && found.sharding.placements[end] == found.sharding.placements[first];
      }
      for (size_t axis = first; axis < end; axis = is_one ? end : axis + 1) {
        Placement placement = found.sharding.placements[axis];
        placement.unit = 1;
        bool is_usual = placement.is_partial() || words_.splits_batch(found, placement, origin(index));
        if (placement.is_replicate() || (has_rule && is_usual)) continue;
        list.emplace_back(is_one ? user : axes[axis].name, placement);
      }
      first = end;
    }
    return list;
  }

 private:
  std::string origin(size_t index) const { return steps_[index] == nullptr ? "" : steps_[index]->origin; }

  const Plan& plan_;
  ModelWords words_;
  std::vector<const PlanStep*> steps_;
  std::vector<std::pair<std::string, size_t>> in_order_;
  std::map<std::string, size_t> index_;
  std::set<std::string> axes_;
};

/// "S(0) over dp, P(sum) over tp".
std::string plain_text(const std::vector<std::pair<std::string, Placement>>& placements) {
  std::string text;
  for (const auto& [axis, placement] : placements) {
    text += fmt::format("{}{} over {}", text.empty() ? "" : ", ", to_string(placement), axis);
  }
  return text.empty() ? "R" : text;
}

}  // namespace

TensorChanges tensor_changes(const Plan& before, const Plan& after) {
  NamedTensors first(before);
  NamedTensors second(after);
  TensorChanges changes;
  for (const auto& [name, own] : first.in_order()) {
    const PlanTensor& tensor = first.tensor(own);
    std::optional<size_t> its = second.find(name);
    if (!its) {
      changes.lone.push_back({tensor.name, first.layer(own), tensor.role, true});
      continue;
    }
    const PlanTensor& partner = second.tensor(*its);
    bool is_own_type = tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kInput;
    if (is_own_type && tensor.type != partner.type) {
      changes.types.push_back(
          {tensor.name, first.layer(own), tensor.role, to_string(tensor.type), to_string(partner.type)});
    }
    // A gradient is one where the optimizer reads it as it is made.
    TensorRole role = tensor.role == TensorRole::kOther ? partner.role : tensor.role;
    auto own_placements = first.placements(own, second);
    auto its_placements = second.placements(*its, first);
    if (own_placements == its_placements) continue;
    TensorChange change{tensor.name, first.layer(own), role, first.words(own), second.words(*its)};
    if (change.before == change.after) {
      change.before = plain_text(own_placements);
      change.after = plain_text(its_placements);
    }
    changes.placements.push_back(std::move(change));
  }
  for (const auto& [name, its] : second.in_order()) {
    if (first.find(name)) continue;
    changes.lone.push_back({second.tensor(its).name, second.layer(its), second.tensor(its).role, false});
  }
  return changes;
}

}  // namespace tpc
