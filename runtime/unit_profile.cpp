#include "runtime/unit_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "compiler/core/check.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kProfiledSteps = 5;

bool is_one_op(const UnitTime& unit) {
  return std::ranges::all_of(unit.ops, [&](OpKind op) { return op == unit.ops[0]; });
}

// The ops without the number of tensors, so that calls on more and on fewer tensors are added.
std::string kind_of(const UnitTime& unit) {
  if (is_one_op(unit)) return std::string(op_name(unit.ops[0]));
  std::vector<std::string_view> names;
  for (OpKind op : unit.ops) names.push_back(op_name(op));
  return fmt::format("{}", fmt::join(names, "+"));
}

struct Total {
  std::string op;
  int64_t calls = 0;
  double ms = 0;
};

double total_ms(const UnitProfile& profile) {
  double ms = 0;
  for (const UnitTime& unit : profile.units) ms += unit.ms;
  return ms;
}

std::vector<Total> totals_of(const UnitProfile& profile) {
  std::map<std::string, Total> by_op;
  for (const UnitTime& unit : profile.units) {
    std::string op = kind_of(unit);
    Total& total = by_op[op];
    total.op = op;
    ++total.calls;
    total.ms += unit.ms;
  }
  std::vector<Total> totals;
  for (auto& [op, total] : by_op) totals.push_back(std::move(total));
  std::ranges::stable_sort(totals, std::ranges::greater(), &Total::ms);
  return totals;
}

double share_of(double ms, double all) { return all > 0 ? ms / all : 0; }

// To a tenth of a microsecond, which is finer than the clock tells.
double rounded_ms(double ms) { return std::round(ms * 1e4) / 1e4; }

// A field that is an array, an element a line.
std::string lines_of(std::string_view name, const std::vector<Json>& elements) {
  std::vector<std::string> lines;
  for (const Json& element : elements) lines.push_back("  " + element.dump());
  return fmt::format(" \"{}\": [\n{}\n ]", name, fmt::join(lines, ",\n"));
}

}  // namespace

uint64_t first_profiled_step(uint64_t num_steps) {
  uint64_t count = std::min(kProfiledSteps, num_steps > 1 ? num_steps - 1 : num_steps);
  return num_steps - count;
}

UnitProfile unit_profile(const std::vector<std::vector<UnitTime>>& steps) {
  TPC_CHECK(!steps.empty(), "a profile of no step");
  UnitProfile profile{steps[0], steps.size()};
  for (size_t i = 0; i < profile.units.size(); ++i) {
    std::vector<double> ms;
    for (const std::vector<UnitTime>& step : steps) {
      TPC_CHECK(step.size() == profile.units.size() && step[i].first == profile.units[i].first,
                "measured steps differ in their units");
      ms.push_back(step[i].ms);
    }
    auto middle = ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2);
    std::ranges::nth_element(ms, middle);
    profile.units[i].ms = *middle;
  }
  return profile;
}

std::string unit_ops(const UnitTime& unit) {
  bool is_many = unit.ops.size() > 1 && is_one_op(unit);
  return kind_of(unit) + (is_many ? fmt::format("*{}", unit.ops.size()) : "");
}

std::string profile_json(const UnitProfile& profile, const Plan& plan, std::string_view device, int64_t rank) {
  double all = total_ms(profile);
  std::vector<Json> units;
  for (const UnitTime& unit : profile.units) {
    const PlanStep& first = plan.steps[static_cast<size_t>(unit.first)];
    units.push_back({{"steps", {unit.first, unit.end}},
                     {"ops", unit_ops(unit)},
                     {"layer", first.layer},
                     {"phase", to_string(first.phase)},
                     {"queue", to_string(unit.queue)},
                     {"ms", rounded_ms(unit.ms)}});
  }
  std::vector<Json> totals;
  for (const Total& total : totals_of(profile)) {
    totals.push_back({{"op", total.op},
                      {"calls", total.calls},
                      {"ms", rounded_ms(total.ms)},
                      {"share", std::round(share_of(total.ms, all) * 1e4) / 1e4}});
  }
  Json head = {{"format", "tpc-profile"},
               {"version", 1},
               {"model", plan.model_name},
               {"mesh", to_string(plan.mesh)},
               {"device", device},
               {"rank", rank},
               {"measured_steps", profile.num_steps},
               {"ms", rounded_ms(all)}};
  std::string text = "{\n";
  for (const auto& [name, value] : head.items()) text += fmt::format(" \"{}\": {},\n", name, value.dump());
  return text + lines_of("units", units) + ",\n" + lines_of("totals", totals) + "\n}\n";
}

std::string profile_heading(const UnitProfile& profile) {
  return fmt::format("time of every unit, alone on the device: rank 0, median of {} step{}\n", profile.num_steps,
                     profile.num_steps == 1 ? "" : "s");
}

std::string profile_table(const UnitProfile& profile) {
  double all = total_ms(profile);
  TextTable table("lrrr");
  table.add_row({"op", "calls", "ms", "share"});
  auto row = [&](const std::string& op, size_t calls, double ms) {
    table.add_row({op, grouped(static_cast<int64_t>(calls)), fmt::format("{:.3f}", ms),
                   fmt::format("{:.1f} %", 100 * share_of(ms, all))});
  };
  for (const Total& total : totals_of(profile)) row(total.op, static_cast<size_t>(total.calls), total.ms);
  row("all", profile.units.size(), all);
  return table.text();
}

}  // namespace tpc
