// The report for people: collectives, totals, ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/plan/model_words.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

std::string received_text(int64_t most, int64_t least) {
  return most == least ? grouped(most) : fmt::format("{} (least {})", grouped(most), grouped(least));
}

std::string header_text(const Report& report) {
  std::string text = report.world_size == 1 ? report.model + " on one rank"
                                            : fmt::format("{} on {}: {} ranks", report.model, user_mesh(report.mesh),
                                                          grouped(report.world_size));
  auto strategy = report.options.find("strategy");
  if (strategy != report.options.end()) text += fmt::format(", strategy {}", strategy->second);
  text += "\n";
  if (report.precision.is_mixed()) text += precision_text(report.precision) + "\n";
  if (report.collectives.empty()) return text + "\nNo collective: no rank waits for another.\n";
  text += fmt::format("Φ = {} = {} elements, {} \"{}\"; an all_reduce of it counts 2Φ.\n",
                      fmt::join(report.phi.shape, "·"), grouped(report.phi.elements),
                      report.phi.shape == report.phi.whole_shape ? "the whole of" : "one dp replica's part of",
                      report.phi.tensor);
  text +=
      "received: bytes that the fullest rank gets from its peers. ring: volume · (n-1)/n · element size, the same "
      "where "
      "sizes divide.\n";
  return text;
}

/// The rows of one block, in execution order.
struct Block {
  std::string name;
  std::vector<const CollectiveRow*> rows;
};

std::vector<Block> blocks_of(const Report& report) {
  std::vector<Block> blocks;
  std::map<std::string, size_t> index;
  for (const CollectiveRow& row : report.collectives) {
    auto [found, is_new] = index.try_emplace(row.block, blocks.size());
    if (is_new) blocks.push_back({row.block, {}});
    blocks[found->second].rows.push_back(&row);
  }
  return blocks;
}

/// Whole numbers like the other byte columns; a fraction where blocks are uneven.
std::string ring_text(double bytes) {
  auto whole = static_cast<int64_t>(bytes);
  return static_cast<double>(whole) == bytes ? grouped(whole) : short_number(bytes);
}

/// Cells of a row, as they read in any block; the reason is left out of comparisons.
std::vector<std::string> cells_of(const CollectiveRow& row, const std::string& indent) {
  return {indent + name_in_block(row.layer),
          relative_to_block(row.tensor, row.block),
          std::string(to_string(row.phase)),
          std::string(op_name(row.kind)),
          row.axis,
          fmt::format("{}", row.group_size),
          std::string(to_string(row.dtype)),
          grouped(row.elements),
          phi_text(row.volume_phi),
          received_text(row.received_bytes_max, row.received_bytes_min),
          ring_text(row.ring_bytes)};
}

std::string collectives_text(const Report& report, bool all_collectives) {
  std::vector<Block> blocks = blocks_of(report);
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const Block& block : blocks) {
    names.push_back(block.name);
    std::string content;
    for (const CollectiveRow* row : block.rows) content += fmt::format("{}\n", fmt::join(cells_of(*row, ""), "|"));
    // Every block its own run when all are wanted.
    contents.push_back(all_collectives ? fmt::format("{}", names.size()) : content);
  }
  TextTable table("lllllrlrrrrl");
  table.add_row({"layer", "tensor", "phase", "collective", "axis", "n", "dtype", "elements", "volume", "received",
                 "ring", "why"});
  for (const BlockRun& run : find_runs(names, contents)) {
    const Block& first = blocks[run.first];
    bool is_single_layer = run.count == 1 && first.name == first.rows[0]->layer;
    if (!is_single_layer) table.add_line(run_name(names, run));
    // The first block's neighbours are often others than those of the rest.
    const Block& shown = blocks[run.first + (run.count > 1 ? 1 : 0)];
    for (const CollectiveRow* row : shown.rows) {
      std::vector<std::string> cells = cells_of(*row, is_single_layer ? "" : "  ");
      cells.push_back(relative_to_block(row->why, row->block));
      table.add_row(std::move(cells));
    }
  }
  return table.text();
}

std::string totals_text(const Report& report) {
  TextTable table("llrrr");
  table.add_row({"total by", "", "collectives", "volume", "received"});
  auto add = [&](const std::string& by, const std::vector<VolumeTotal>& totals) {
    std::string label = by;
    for (const VolumeTotal& total : totals) {
      table.add_row(
          {label, total.name, grouped(total.collectives), phi_text(total.volume_phi), grouped(total.received_bytes)});
      label.clear();
    }
  };
  add("phase", report.by_phase);
  add("axis", report.by_axis);
  add("collective", report.by_kind);
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const VolumeTotal& total : report.by_block) {
    names.push_back(total.name);
    contents.push_back(fmt::format("{} {} {}", total.collectives, total.volume_phi, total.received_bytes));
  }
  std::string label = "layer";
  for (const BlockRun& run : find_runs(names, contents)) {
    const VolumeTotal& total = report.by_block[run.first];
    std::string each = run.count > 1 ? " each" : "";
    table.add_row({label, run_name(names, run) + each, grouped(total.collectives), phi_text(total.volume_phi),
                   grouped(total.received_bytes)});
    label.clear();
  }
  add("step", {VolumeTotal{"", report.step.collectives, report.step.volume_elements, report.step.volume_phi,
                           report.step.received_bytes}});
  return table.text();
}

/// "0..2, 5".
std::string rank_list(const std::vector<int64_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    text += text.empty() ? "" : ", ";
    text += end == i ? fmt::format("{}", ranks[i]) : fmt::format("{}..{}", ranks[i], ranks[end]);
    i = end + 1;
  }
  return text;
}

std::string ranks_text(const Report& report) {
  TextTable table("lrrrrrrrr");
  table.add_row({report.has_all_ranks ? "rank" : "rank (as)", "parameters", "bytes", "gradients", "optimizer state",
                 "inputs", "peak activations", "multiply-adds", "received"});
  std::map<std::vector<std::string>, size_t> index;
  std::vector<std::pair<std::vector<std::string>, std::vector<int64_t>>> rows;
  std::vector<int64_t> counts;
  for (const RankLoad& rank : report.ranks) {
    std::vector<std::string> cells{grouped(rank.parameters),
                                   grouped(rank.parameter_bytes),
                                   grouped(rank.gradient_bytes),
                                   grouped(rank.optimizer_state_bytes),
                                   grouped(rank.input_bytes),
                                   grouped(rank.peak_activation_bytes),
                                   grouped(static_cast<int64_t>(rank.multiply_adds)),
                                   grouped(rank.received_bytes)};
    auto [found, is_new] = index.try_emplace(cells, rows.size());
    if (is_new) {
      rows.push_back({std::move(cells), {}});
      counts.push_back(0);
    }
    rows[found->second].second.push_back(rank.rank);
    counts[found->second] += rank.ranks_like_it;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    auto& [cells, ranks] = rows[i];
    std::string name = report.has_all_ranks ? rank_list(ranks) : fmt::format("{} (x{})", ranks[0], counts[i]);
    cells.insert(cells.begin(), name);
    table.add_row(cells);
  }
  std::string text =
      "Per rank (bytes where not said otherwise; multiply-adds of contractions and attention)\n" + table.text();
  text += fmt::format("Arena of every rank: {} bytes, of them {} for inputs, parameters and states.\n",
                      grouped(report.arena_bytes), grouped(report.persistent_bytes));
  if (!report.device_memory) return text;
  const DeviceMemoryNeed& need = *report.device_memory;
  std::string collectives =
      report.world_size == 1 ? "" : fmt::format(" and of {} for collectives", grouped(need.communication_bytes));
  text += fmt::format(
      "With --device cuda rank {} takes {} bytes of its GPU: the arena, working memory of {} for kernels{}; CUDA's "
      "context{} own memory come on top.\n",
      need.rank, grouped(need.total()), grouped(need.compute_bytes), collectives,
      report.world_size == 1 ? " and its libraries'" : ", its libraries' and NCCL's");
  return text;
}

std::string imbalance_text(const Report& report) {
  std::string text;
  const Imbalance* largest = nullptr;
  for (const Imbalance& imbalance : report.imbalances) {
    if (!imbalance.is_notable()) continue;
    text += fmt::format("  {}: rank {} has {}, the mean is {} (x{:.4g})\n", imbalance.quantity, imbalance.fullest_rank,
                        short_number(imbalance.most), short_number(imbalance.mean), imbalance.ratio());
    if (largest == nullptr || imbalance.ratio() > largest->ratio()) largest = &imbalance;
  }
  if (largest == nullptr) return "All ranks carry the same load.\n";
  return fmt::format("Largest imbalance between ranks: {}, x{:.4g} the mean\n{}", largest->quantity, largest->ratio(),
                     text);
}

std::string comparison_text(const Report& report) {
  if (!report.data_against_tensor) return "";
  const DataAgainstTensor& c = *report.data_against_tensor;
  std::string text = fmt::format(
      "dp against tp, at b·s = {} and h = {}: splitting the batch moves the gradients once, {} "
      "elements a step (2 x parameters) whatever b·s;\n",
      grouped(c.tokens), grouped(c.hidden), grouped(static_cast<int64_t>(c.data_elements)));
  if (c.tensor_elements <= 0) {
    return text + fmt::format("a transformer layer split over tp would move 8·b·s·h = {} elements.\n",
                              grouped(8 * c.tokens * c.hidden));
  }
  return text + fmt::format(
                    "splitting the layers moves {} elements, in proportion to b·s. {} moves less here; both are equal "
                    "at b·s = {}.\n",
                    grouped(static_cast<int64_t>(c.tensor_elements)), c.tensor_elements < c.data_elements ? "tp" : "dp",
                    short_number(c.equal_tokens));
}

}  // namespace

std::string report_text(const Report& report, bool all_collectives) {
  std::string text = header_text(report);
  if (!report.collectives.empty()) {
    text += "\n" + collectives_text(report, all_collectives) + "\n" + totals_text(report);
  }
  if (std::string proof = proof_text(report); !proof.empty()) text += "\n" + proof;
  text += "\n" + ranks_text(report) + imbalance_text(report);
  std::string comparison = comparison_text(report);
  return comparison.empty() ? text : text + "\n" + comparison;
}

}  // namespace tpc
