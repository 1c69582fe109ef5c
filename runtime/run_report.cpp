#include "runtime/run_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "compiler/core/check.h"

namespace tpc {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string short_count(double count) {
  if (count >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string with_commas(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

// Median time of a step, and tokens per second at it.
std::pair<double, double> median_speed(const std::vector<StepRecord>& records) {
  TPC_CHECK(!records.empty(), "a run without steps");
  bool has_ordinary = !std::ranges::all_of(records, &StepRecord::is_profiled);
  std::vector<double> ms, speed;
  for (const StepRecord& record : records) {
    if (has_ordinary && record.is_profiled) continue;
    ms.push_back(record.ms);
    speed.push_back(record.tokens_per_s);
  }
  return {median(std::move(ms)), median(std::move(speed))};
}

int64_t total_of(const Traffic& traffic) {
  int64_t total = 0;
  for (const auto& [key, bytes] : traffic) total += bytes;
  return total;
}

std::string memory_text(int64_t bytes) {
  double mib = static_cast<double>(bytes) / (1024.0 * 1024.0);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace

std::string metrics_line(const StepRecord& record) {
  std::string norm = record.result.grad_norm ? fmt::format(",\"grad_norm\":{}", *record.result.grad_norm) : "";
  return fmt::format("{{\"step\":{},\"loss\":{}{},\"ms\":{:.4f},\"tokens_per_s\":{:.1f}{}}}\n", record.step,
                     record.result.loss, norm, record.ms, record.tokens_per_s,
                     record.is_profiled ? ",\"profiled\":true" : "");
}

std::string step_line(const StepRecord& record, uint64_t num_steps) {
  std::string norm = record.result.grad_norm ? fmt::format("  grad_norm {:.4g}", *record.result.grad_norm) : "";
  std::string total = std::to_string(num_steps);
  return fmt::format("step {:>{}}/{}  loss {:.6f}{}  {:.2f} ms  {} tokens/s", record.step, total.size(), total,
                     record.result.loss, norm, record.ms, short_count(record.tokens_per_s));
}

std::string run_summary(const std::vector<StepRecord>& records) {
  auto [ms, speed] = median_speed(records);
  return fmt::format("{} step{}: loss {:.6f} -> {:.6f}, median {:.2f} ms a step, {} tokens/s\n", records.size(),
                     records.size() == 1 ? "" : "s", records.front().result.loss, records.back().result.loss, ms,
                     short_count(speed));
}

std::string traffic_table(const Traffic& counted, const Traffic& predicted) {
  if (predicted.empty()) return "no communication\n";
  std::string text = fmt::format("{:<15}{:<10}{:>20}{:>20}\n", "bytes received", "", "counted", "predicted");
  int64_t total_counted = 0, total_predicted = 0;
  for (const auto& [key, bytes] : predicted) {
    int64_t found = counted.contains(key) ? counted.at(key) : 0;
    total_counted += found;
    total_predicted += bytes;
    text += fmt::format("{:<15}{:<10}{:>20}{:>20}\n", op_name(key.first), to_string(key.second), with_commas(found),
                        with_commas(bytes));
  }
  text +=
      fmt::format("{:<15}{:<10}{:>20}{:>20}\n", "all", "", with_commas(total_counted), with_commas(total_predicted));
  return text;
}

std::string summary_json(const std::vector<StepRecord>& records, const Traffic& counted, const Traffic& predicted,
                         const std::optional<DeviceMemoryReport>& memory) {
  auto [ms, speed] = median_speed(records);
  nlohmann::ordered_json json = {{"steps", records.size()},
                                 {"first_loss", records.front().result.loss},
                                 {"last_loss", records.back().result.loss},
                                 {"median_ms", ms},
                                 {"tokens_per_s", speed},
                                 {"received_bytes", total_of(counted)},
                                 {"predicted_bytes", total_of(predicted)}};
  if (memory) {
    json["device_memory"] = {{"rank", memory->rank},
                             {"arena", memory->arena},
                             {"plan", memory->memory.planned},
                             {"held", memory->memory.use.held},
                             {"used", memory->memory.use.used}};
  }
  return json.dump() + "\n";
}

std::string memory_line(const DeviceMemoryReport& memory) {
  const auto& [planned, use] = memory.memory;
  double share = static_cast<double>(use.used) / static_cast<double>(std::max<int64_t>(planned, 1));
  return fmt::format("device memory: plan {} (arena {}), used {} ({:.3f})\n", memory_text(planned),
                     memory_text(memory.arena), memory_text(use.used), share);
}

}  // namespace tpc
