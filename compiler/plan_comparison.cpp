#include "compiler/plan_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"
#include "passes/alternatives.h"

namespace tpc {
namespace {

/// Differences below these parts are not worth a line of advice.
constexpr double kNotablePrice = 0.001;
constexpr double kNotableMemory = 0.01;

struct Contender {
  std::string name;
  CompileOptions options;
};

std::vector<Contender> contenders(const CompileOptions& asked) {
  CompileOptions base = asked;
  base.strategy = "megatron";
  base.sequence_parallel = false;
  base.zero_stage = 0;
  base.prove = false;
  std::vector<Contender> list{{"megatron", base}};
  auto with = [&](std::string name, auto&& change) {
    list.push_back({std::move(name), base});
    change(list.back().options);
  };
  bool has_tp = false;
  bool has_dp = false;
  for (const MeshAxis& axis : asked.mesh.axes()) {
    has_tp = has_tp || (axis.name == "tp" && axis.size > 1);
    has_dp = has_dp || (axis.name == "dp" && axis.size > 1);
  }
  if (has_tp) with("megatron, sequence-parallel", [](CompileOptions& o) { o.sequence_parallel = true; });
  if (has_dp) {
    with("megatron, ZeRO 1 and 2", [](CompileOptions& o) { o.zero_stage = 2; });
    with("megatron, ZeRO 3", [](CompileOptions& o) { o.zero_stage = 3; });
  }
  with("search", [&](CompileOptions& o) { o.strategy = "search"; });
  return list;
}

std::string change_text(double now, double before) {
  if (before == 0 || std::abs(now / before - 1) < kNotablePrice / 2) return "";
  return fmt::format("{:+.1f} %", 100 * (now / before - 1));
}

std::string less_or_more(int64_t now, int64_t before) {
  double change = 100 * (static_cast<double>(now) / static_cast<double>(std::max<int64_t>(before, 1)) - 1);
  return fmt::format("{:.3g} % {}", std::abs(change), change < 0 ? "less" : "more");
}

}  // namespace

std::string comparison_text(const Graph& graph, const CompileOptions& options) {
  TextTable table("lrrrrrrr");
  bool has_links = !options.links.empty();
  table.add_row({"plan", "received", "", "memory", "", "collectives", "volume", has_links ? "time" : ""});
  std::string notes;
  std::optional<UserError> first_error;
  int64_t first_bytes = 0;
  int64_t first_memory = 0;
  for (const Contender& contender : contenders(options)) {
    DiagnosticSink sink;
    try {
      Plan plan = compile(graph, contender.options, sink).plan;
      Report report = make_report(plan);
      int64_t received = report.step.received_bytes;
      if (first_memory == 0) {
        first_bytes = received;
        first_memory = plan.arena_bytes;
      }
      table.add_row({contender.name, bytes_text(received),
                     change_text(static_cast<double>(received), static_cast<double>(first_bytes)),
                     bytes_text(plan.arena_bytes),
                     change_text(static_cast<double>(plan.arena_bytes), static_cast<double>(first_memory)),
                     grouped(report.step.collectives), phi_text(report.step.volume_phi),
                     has_links ? seconds_text(report.step.seconds) : ""});
    } catch (const UserError& error) {
      if (!first_error) first_error = error;
      table.add_row({contender.name, "not possible"});
      notes += fmt::format("{}: {}\n", contender.name, error.diagnostics().front().message);
    }
  }
  bool is_any_possible = first_memory > 0;
  if (first_error && !is_any_possible) throw *first_error;
  return fmt::format("{} on {}: a step, on the fullest rank; memory is the arena.\n\n{}{}{}", graph.name,
                     user_mesh(options.mesh), table.text(), notes.empty() ? "" : "\n", notes);
}

std::string front_text(const Graph& graph, const CompileOptions& options) {
  Front front = price_memory_front(graph, options);
  bool is_time = options.price.is_time();
  const FrontPoint& cheapest = front.points.back();
  int64_t dearest = front.points.front().price;
  TextTable table("rrrl");
  table.add_row({"memory", is_time ? "time" : "received", "", ""});
  constexpr double kBarWidth = 40;
  std::string last;
  for (const FrontPoint& point : front.points) {
    // Corners that read the same are one to people.
    std::string numbers = bytes_text(point.memory) + price_text(point.price, is_time);
    if (std::exchange(last, numbers) == numbers) continue;
    auto width = static_cast<size_t>(
        dearest == 0 ? 0.0 : kBarWidth * static_cast<double>(point.price) / static_cast<double>(dearest));
    table.add_row({bytes_text(point.memory), price_text(point.price, is_time),
                   change_text(static_cast<double>(point.price), static_cast<double>(cheapest.price)),
                   std::string(width, '#')});
  }
  std::string claim = "No plan lies below a line between two of these";
  if (!front.is_complete) claim = "The widest gaps are filled first; there are more corners";
  if (!front.is_proved) claim = "Not proved here: a plan below a line between two of these is possible";
  return fmt::format(
      "{} on {}: what less memory costs, by the search's account of memory (weights, gradients, optimizer state and "
      "what\nwaits for backward, on the fullest rank). {}.\n\n{}{}",
      graph.name, user_mesh(options.mesh), claim, table.text(),
      front.points.size() > 1 ? "\nTake one: --memory SIZE, of the arena, looks for the cheapest plan that fits\n"
                              : "");
}

std::string search_advice(const CompileResult& result) {
  if (!result.best) return "";
  const SearchEstimate& best = *result.best;
  auto price = static_cast<double>(result.price);
  auto memory = static_cast<double>(result.memory_account);
  double memory_change = static_cast<double>(best.memory) / std::max(memory, 1.0) - 1;
  bool moves_less = static_cast<double>(best.price) < price * (1 - kNotablePrice);
  bool holds_less = best.price <= result.price && memory_change < -kNotableMemory;
  if (!moves_less && !holds_less) return "";
  // Who asked for ZeRO wants less memory.
  auto zero = result.plan.options.find("zero");
  if (zero != result.plan.options.end() && memory_change > kNotableMemory) return "";
  std::string gain = moves_less ? fmt::format("receives {} ({} instead of {})", less_or_more(best.price, result.price),
                                              bytes_text(best.price), bytes_text(result.price))
                                : "receives as much";
  std::string held = std::abs(memory_change) < kNotableMemory
                         ? "as much memory"
                         : less_or_more(best.memory, result.memory_account) + " memory";
  return fmt::format("Better: --strategy search {} with {}\n", gain, held);
}

}  // namespace tpc
