#include "compiler/plan/plan_difference.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/plan/attribute_changes.h"
#include "compiler/plan/collective_changes.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/report.h"
#include "compiler/plan/tensor_changes.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

using Unit = AmountChange::Unit;

std::string where(const Plan& plan) { return plan.mesh.world_size() == 1 ? "one rank" : user_mesh(plan.mesh); }

std::string title(const Plan& plan) {
  std::string text = plan.model_name + " on " + where(plan);
  auto strategy = plan.options.find("strategy");
  return strategy == plan.options.end() ? text : text + ", strategy " + strategy->second;
}

/// Apart from sizes.
bool is_same_model(const Plan& before, const Plan& after) {
  if (before.model_name != after.model_name) return false;
  if (before.model_json == after.model_json) return true;
  auto layers = [](const Plan& plan) {
    auto model = nlohmann::ordered_json::parse(plan.model_json, nullptr, /*allow_exceptions=*/false);
    if (model.is_object()) model.erase("dims");
    return model;
  };
  return layers(before) == layers(after);
}

std::string proof_words(const Plan& plan) {
  if (!plan.proof) return "";
  const SearchProof& proof = *plan.proof;
  return fmt::format("{}: price {}, bound {}, memory {} of {}, {} choices in {}", proof.objective, grouped(proof.price),
                     grouped(proof.bound), grouped(proof.memory),
                     proof.memory_limit == 0 ? "any" : grouped(proof.memory_limit), grouped(proof.choices),
                     grouped(proof.decisions));
}

/// In the order in which they are told.
constexpr std::string_view kGroups[] = {"received",
                                        "received by phase",
                                        "received by collective",
                                        "received by axis",
                                        "time",
                                        "collectives",
                                        "collectives by kind",
                                        "memory",
                                        "work",
                                        "steps"};

/// Quantities of a plan by group and name.
class Amounts {
 public:
  Amounts(const Report& report, const Plan& plan) {
    add("received", "step", Unit::kBytes, report.step.received_bytes);
    for (const VolumeTotal& total : report.by_phase) add_received("phase", total);
    for (const VolumeTotal& total : report.by_kind) add_received("collective", total);
    for (const VolumeTotal& total : report.by_axis) add_received("axis", total);
    if (report.has_links) add("time", "collectives", Unit::kSeconds, report.step.seconds);
    add("collectives", "step", Unit::kCount, report.step.collectives);
    for (const VolumeTotal& total : report.by_kind) {
      add("collectives by kind", total.name, Unit::kCount, total.collectives);
    }
    add("memory", "arena", Unit::kBytes, report.arena_bytes);
    add("memory", "persistent", Unit::kBytes, report.persistent_bytes);
    auto fullest = [&](const char* group, const char* name, Unit unit, auto&& value_of) {
      double most = 0;
      for (const RankLoad& rank : report.ranks) most = std::max(most, static_cast<double>(value_of(rank)));
      add(group, name, unit, most);
    };
    fullest("memory", "parameters", Unit::kBytes, [](const RankLoad& rank) { return rank.parameter_bytes; });
    fullest("memory", "gradients", Unit::kBytes, [](const RankLoad& rank) { return rank.gradient_bytes; });
    fullest("memory", "optimizer state", Unit::kBytes, [](const RankLoad& rank) { return rank.optimizer_state_bytes; });
    fullest("memory", "inputs", Unit::kBytes, [](const RankLoad& rank) { return rank.input_bytes; });
    fullest("memory", "peak activations", Unit::kBytes,
            [](const RankLoad& rank) { return rank.peak_activation_bytes; });
    fullest("work", "multiply-adds", Unit::kCount, [](const RankLoad& rank) { return rank.multiply_adds; });
    add("steps", "all", Unit::kCount, plan.steps.size());
    for (const PlanStep& step : plan.steps) {
      if (!is_collective(step.op)) add("steps", op_name(step.op), Unit::kCount, 1);
    }
  }

  static std::vector<AmountChange> changes(const Amounts& before, const Amounts& after) {
    std::vector<AmountChange> all = before.list_;
    for (const AmountChange& item : after.list_) {
      auto found = before.index_.find({item.group, item.name});
      if (found != before.index_.end()) {
        all[found->second].after = item.before;
      } else {
        all.push_back({item.group, item.name, item.unit, 0, item.before});
      }
    }
    std::erase_if(all, [](const AmountChange& change) { return change.before == change.after; });
    auto rank = [](const AmountChange& change) {
      return std::find(std::begin(kGroups), std::end(kGroups), change.group) - std::begin(kGroups);
    };
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
    return all;
  }

 private:
  /// Amounts of one name add up.
  template <class Number>
  void add(std::string_view group, std::string_view name, Unit unit, Number amount) {
    auto [found, is_new] = index_.try_emplace({std::string(group), std::string(name)}, list_.size());
    if (is_new) list_.push_back({std::string(group), std::string(name), unit, 0, 0});
    list_[found->second].before += static_cast<double>(amount);
  }

  void add_received(const std::string& by, const VolumeTotal& total) {
    add("received by " + by, total.name, Unit::kBytes, total.received_bytes);
  }

  std::vector<AmountChange> list_;  ///< `before` holds the amount
  std::map<std::pair<std::string, std::string>, size_t> index_;
};

/// Name and operands of every step, as text.
std::vector<std::string> step_texts(const Plan& plan) {
  std::vector<std::string> texts;
  texts.reserve(plan.steps.size());
  for (const PlanStep& step : plan.steps) {
    std::string text(op_name(step.op));
    for (const std::vector<int>* tensors : {&step.operands, &step.results}) {
      for (int tensor : *tensors) text += ' ' + plan.tensors[static_cast<size_t>(tensor)].name;
      text += " ->";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

/// How plans differ that have the same steps, receive and hold the same.
std::vector<std::string> details(const Plan& before, const Plan& after) {
  std::vector<std::string> list;
  std::vector<std::string> first = step_texts(before);
  std::vector<std::string> second = step_texts(after);
  if (first != second) {
    std::sort(first.begin(), first.end());
    std::sort(second.begin(), second.end());
    list.emplace_back(first == second ? "the order of steps" : "what steps read and make");
    return list;
  }
  auto differs = [](const auto& a, const auto& b, auto&& field) {
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(),
                       [&](const auto& x, const auto& y) { return field(x) == field(y); });
  };
  auto offset = [](const PlanTensor& tensor) { return std::pair(tensor.offset, tensor.bytes); };
  if (differs(before.tensors, after.tensors, offset)) list.emplace_back("where tensors lie in the arena");
  if (differs(before.steps, after.steps, [](const PlanStep& step) { return step.why; })) list.emplace_back("reasons");
  if (list.empty()) list.emplace_back("the plan file in other details");
  return list;
}

}  // namespace

PlanDifference difference(const Plan& before, const Plan& after) {
  PlanDifference result;
  result.before = title(before);
  result.after = title(after);
  if (before == after) {
    result.equal_collectives = std::count_if(before.steps.begin(), before.steps.end(),
                                             [](const PlanStep& step) { return is_collective(step.op); });
    return result;
  }
  auto compare = [&](std::string name, const std::string& a, const std::string& b) {
    if (a != b) result.settings.push_back({std::move(name), a, b});
  };
  auto compare_all = [&](const std::string& prefix, const std::map<std::string, std::string>& a,
                         const std::map<std::string, std::string>& b) {
    std::map<std::string, std::pair<std::string, std::string>> both;
    for (const auto& [name, value] : a) both[name].first = value;
    for (const auto& [name, value] : b) both[name].second = value;
    for (const auto& [name, values] : both) compare(prefix + name, values.first, values.second);
  };
  compare("model", before.model_name, after.model_name);
  result.is_same_model = is_same_model(before, after);
  auto sizes = [](const Plan& plan) {
    std::map<std::string, std::string> list;
    ModelWords words(plan);
    for (const auto& [name, size] : words.dims()) list[name] = fmt::format("{}", size);
    return list;
  };
  compare_all("size ", sizes(before), sizes(after));
  compare("mesh", where(before), where(after));
  auto options = [](const Plan& plan) {
    std::map<std::string, std::string> list = plan.options;
    list.erase("mesh");
    return list;
  };
  compare_all("", options(before), options(after));
  compare("proof", proof_words(before), proof_words(after));

  Report before_report = make_report(before);
  Report after_report = make_report(after);
  // Only the times of two can be compared.
  bool has_times = before_report.has_links && after_report.has_links;
  before_report.has_links = after_report.has_links = has_times;
  result.amounts = Amounts::changes(Amounts(before_report, before), Amounts(after_report, after));
  CollectiveChanges collectives = collective_changes(before, before_report, after, after_report);
  result.collectives = std::move(collectives.changes);
  result.equal_collectives = collectives.equal;
  TensorChanges tensors = tensor_changes(before, after);
  result.types = std::move(tensors.types);
  result.placements = std::move(tensors.placements);
  result.lone_tensors = std::move(tensors.lone);
  result.attributes = attribute_changes(before, after);
  if (result.empty()) result.details = details(before, after);
  return result;
}

}  // namespace tpc
