// A difference for programs: everything, exact numbers.
#include <nlohmann/json.hpp>

#include <cmath>

#include "compiler/core/check.h"
#include "compiler/plan/plan_difference.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(AmountChange::Unit unit) {
  switch (unit) {
    case AmountChange::Unit::kBytes:
      return "bytes";
    case AmountChange::Unit::kCount:
      return "count";
    case AmountChange::Unit::kSeconds:
      return "seconds";
  }
  TPC_UNREACHABLE("unit {}", static_cast<int>(unit));
}

/// Whole numbers without a point.
Json number(double value) {
  bool is_whole = value == std::floor(value) && std::abs(value) < 9007199254740992.0;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json to_json(const TextChange& change) {
  return {{"name", change.name}, {"before", change.before}, {"after", change.after}};
}

Json to_json(const AmountChange& change) {
  return {{"group", change.group},
          {"name", change.name},
          {"unit", to_string(change.unit)},
          {"before", number(change.before)},
          {"after", number(change.after)}};
}

Json to_json(const std::optional<CollectiveSide>& side) {
  if (!side) return nullptr;
  return {{"step", side->step},
          {"kind", op_name(side->kind)},
          {"axis", side->axis},
          {"group_size", side->group_size},
          {"conversion", side->conversion},
          {"received_bytes", side->received_bytes},
          {"why", side->why}};
}

Json to_json(const CollectiveChange& change) {
  return {{"tensor", change.tensor},
          {"layer", change.layer},
          {"phase", to_string(change.phase)},
          {"before", to_json(change.before)},
          {"after", to_json(change.after)}};
}

Json to_json(const TensorChange& change) {
  return {{"tensor", change.tensor},
          {"layer", change.layer},
          {"role", to_string(change.role)},
          {"before", change.before},
          {"after", change.after}};
}

Json to_json(const LoneTensor& lone) {
  return {{"tensor", lone.tensor},
          {"layer", lone.layer},
          {"role", to_string(lone.role)},
          {"plan", lone.is_before ? "before" : "after"}};
}

template <class Item>
Json list(const std::vector<Item>& items) {
  Json result = Json::array();
  for (const Item& item : items) result.push_back(to_json(item));
  return result;
}

}  // namespace

std::string difference_json(const PlanDifference& difference) {
  Json json{{"format", "tpc-diff"},
            {"version", 1},
            {"before", difference.before},
            {"after", difference.after},
            {"equal", difference.empty()},
            {"same_model", difference.is_same_model},
            {"settings", list(difference.settings)},
            {"amounts", list(difference.amounts)},
            {"collectives", list(difference.collectives)},
            {"equal_collectives", difference.equal_collectives},
            {"types", list(difference.types)},
            {"placements", list(difference.placements)},
            {"lone_tensors", list(difference.lone_tensors)},
            {"attributes", list(difference.attributes)},
            {"details", difference.details}};
  return json.dump(2) + "\n";
}

}  // namespace tpc
