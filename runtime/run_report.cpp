#include "runtime/run_report.h"

#include <fmt/format.h>

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

}  // namespace

std::string metrics_line(const StepRecord& record) {
  std::string norm = record.result.grad_norm ? fmt::format(",\"grad_norm\":{}", *record.result.grad_norm) : "";
  return fmt::format("{{\"step\":{},\"loss\":{}{},\"ms\":{:.4f},\"tokens_per_s\":{:.1f}}}\n", record.step,
                     record.result.loss, norm, record.ms, record.tokens_per_s);
}

std::string step_line(const StepRecord& record, uint64_t num_steps) {
  std::string norm = record.result.grad_norm ? fmt::format("  grad_norm {:.4g}", *record.result.grad_norm) : "";
  std::string total = std::to_string(num_steps);
  return fmt::format("step {:>{}}/{}  loss {:.6f}{}  {:.2f} ms  {} tokens/s", record.step, total.size(), total,
                     record.result.loss, norm, record.ms, short_count(record.tokens_per_s));
}

std::string run_summary(const std::vector<StepRecord>& records) {
  TPC_CHECK(!records.empty(), "a run without steps");
  std::vector<double> ms, speed;
  for (const StepRecord& record : records) {
    ms.push_back(record.ms);
    speed.push_back(record.tokens_per_s);
  }
  return fmt::format("{} step{}: loss {:.6f} -> {:.6f}, median {:.2f} ms a step, {} tokens/s\n", records.size(),
                     records.size() == 1 ? "" : "s", records.front().result.loss, records.back().result.loss,
                     median(std::move(ms)), short_count(median(std::move(speed))));
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

}  // namespace tpc
