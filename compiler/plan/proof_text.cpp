#include "compiler/plan/proof_text.h"

#include <fmt/format.h>

#include "compiler/core/text_parts.h"
#include "compiler/plan/text_table.h"

namespace tpc {

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string price_text(int64_t price, bool is_time) {
  return is_time ? seconds_text(static_cast<double>(price) * 1e-12) : bytes_text(price);
}

std::string proof_text(const Report& report) {
  std::string text;
  if (report.has_links && report.step.collectives > 0) {
    std::string axes;
    for (const VolumeTotal& total : report.by_axis) {
      axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", total.name, seconds_text(total.seconds));
    }
    text += fmt::format("On the cluster's links the collectives take {}, one after the other ({})\n",
                        seconds_text(report.step.seconds), axes);
  }
  if (!report.proof) return text;
  const SearchProof& proof = *report.proof;
  bool is_time = proof.objective == "time";
  auto option = [&](const char* name) -> const std::string* {
    auto found = report.options.find(name);
    return found == report.options.end() ? nullptr : &found->second;
  };
  std::string of_all = "of all plans that it may choose from";
  if (proof.memory_limit > 0) {
    of_all += fmt::format(" with {} of memory by its account", bytes_text(proof.memory_limit));
  }
  std::string unit = is_time ? "takes less time in collectives" : "receives fewer bytes";
  // Within a limit plans are told apart by price alone.
  const std::string* price = option("memory_price");
  if (price != nullptr && proof.memory_limit == 0) {
    unit = fmt::format("has less of {} + {} x memory", is_time ? "time" : "bytes received", *price);
  }
  std::string searched =
      fmt::format("{} choices in {} decisions, made together", grouped(proof.choices), grouped(proof.decisions));
  if (proof.is_optimal()) {
    text += fmt::format("Proved: {}, none {} ({})\n", of_all, unit, searched);
  } else if (price != nullptr && proof.memory_limit == 0) {
    // What the bound leaves of the sum is its price and the memory of this plan.
    double memory = parse_number<double>(*price).value_or(0) * static_cast<double>(proof.memory);
    double least = static_cast<double>(proof.bound) + memory;
    double sum = static_cast<double>(proof.price) + memory;
    text += fmt::format("Within {:.2g} % of the best: {}, none {} by more than that ({})\n",
                        sum > 0 ? 100 * (1 - least / sum) : 0.0, of_all, unit, searched);
  } else {
    double gap = 100 * (1 - static_cast<double>(proof.bound) / static_cast<double>(proof.price));
    // Uneven ranks: the sum of every collective's largest receive passes what any one rank receives.
    bool is_more = !is_time && proof.price != report.step.received_bytes;
    text += fmt::format("Within {:.2g} % of the best: {}, the cheapest needs {} at least, this one {}{} ({})\n", gap,
                        of_all, price_text(proof.bound, is_time), price_text(proof.price, is_time),
                        is_more ? ", each collective at its fullest rank" : "", searched);
  }
  return text;
}

}  // namespace tpc
