#include "compiler/plan/plan_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/layer_role.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/plan_classes.h"
#include "compiler/plan/proof_text.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/plan/report.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

size_t position(int index) { return static_cast<size_t>(index); }

/// A line of the table: a layer (four cells) or a collective (one line).
struct ViewLine {
  std::vector<std::string> cells;
  bool is_collective = false;
  std::string why;
};

/// A block of layers with its lines in execution order, and the collectives of its backward pass and optimizer.
struct ViewBlock {
  std::string name;
  bool is_single_layer = false;
  std::vector<ViewLine> lines;

  std::string content() const {
    std::string text;
    for (const ViewLine& line : lines) text += fmt::format("{}\n", fmt::join(line.cells, "|"));
    return text;
  }
};

class PlanView {
 public:
  explicit PlanView(const Plan& plan) : plan_(plan), words_(plan), report_(make_report(plan)) {
    for (size_t i = 0; i < report_.collectives.size(); ++i) row_of_step_[report_.collectives[i].step] = i;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep& step = plan.steps[i];
      if (step.phase == Phase::kForward) steps_of_layer_[step.layer].push_back(static_cast<int>(i));
    }
  }

  std::string run() {
    add_forward();
    add_later_phases();
    return header() + "\n" + table() + "\n" + totals();
  }

 private:
  std::string header() const {
    int64_t world = report_.world_size;
    std::string text = world == 1
                           ? fmt::format("{} on one rank", plan_.model_name)
                           : fmt::format("{} on {}: {} ranks", plan_.model_name, user_mesh(plan_.mesh), grouped(world));
    auto strategy = plan_.options.find("strategy");
    if (strategy != plan_.options.end()) text += ", strategy " + strategy->second;
    auto sequence = plan_.options.find("sequence_parallel");
    if (sequence != plan_.options.end() && sequence->second == "true") text += ", sequence-parallel";
    text += "\n";
    if (report_.precision.is_mixed()) text += precision_text(report_.precision) + "\n";
    std::string sizes = words_.sizes();
    int64_t parameters = 0;
    for (const PlanTensor& tensor : plan_.tensors) {
      if (tensor.role == TensorRole::kParameter) parameters += num_elements(tensor.type.shape);
    }
    text += fmt::format("{}{}{} parameters\n", sizes, sizes.empty() ? "" : "; ", grouped(parameters));
    if (world == 1) return text;
    text +=
        "\nHow to read: whole = every rank holds all of it; by heads = each rank holds some of the heads; partial sum "
        "= the\n"
        "ranks' values must still be added; -> is a collective: axis, volume, bytes that the fullest rank receives, "
        "reason.\n";
    text += fmt::format(
        "Φ = {} = {} elements, {} \"{}\".\n", fmt::join(report_.phi.shape, "·"), grouped(report_.phi.elements),
        report_.phi.shape == report_.phi.whole_shape ? "the whole of" : "one dp replica's part of", report_.phi.tensor);
    for (const MeshAxis& axis : plan_.mesh.axes()) {
      if (user_axis(axis.name) != "dp" || axis.size == 1) continue;
      text += fmt::format(
          "{}: its {} ranks hold a part of the batch each, of every activation, and all weights; told below only "
          "where it is otherwise.\n",
          axis.name, axis.size);
    }
    return text;
  }

  ViewBlock& block(const std::string& layer) {
    std::string name = block_of(layer);
    auto [found, is_new] = block_index_.try_emplace(name, blocks_.size());
    if (is_new) blocks_.push_back({name, name == layer, {}});
    return blocks_[found->second];
  }

  void add_forward() {
    std::set<std::string> told;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (step.phase != Phase::kForward) continue;
      if (is_collective(step.op)) {
        const CollectiveRow& row = report_.collectives[row_of_step_.at(static_cast<int>(i))];
        std::string text = fmt::format("-> {} {}  {}  {}", op_name(row.kind), row.axis, phi_text(row.volume_phi),
                                       bytes_text(row.received_bytes_max));
        block(row.layer).lines.push_back({{text}, true, relative_to_block(row.why, row.block)});
      } else if (!is_move(step.op) && step.op != OpKind::kOutput && told.insert(step.layer).second) {
        add_layer(step.layer);
      }
    }
  }

  void add_layer(const std::string& layer) {
    const std::vector<int>& steps = steps_of_layer_.at(layer);
    const PlanStep* main = nullptr;
    const PlanStep* last = nullptr;
    std::vector<int> weights;
    for (int index : steps) {
      const PlanStep& step = plan_.steps[position(index)];
      if (is_move(step.op) || step.op == OpKind::kOutput) continue;
      last = &step;
      if (main == nullptr || weight_of_role(step) > weight_of_role(*main)) main = &step;
      for (int operand : step.operands) {
        bool is_new = std::find(weights.begin(), weights.end(), operand) == weights.end();
        if (plan_.tensors[position(operand)].role == TensorRole::kParameter && is_new) weights.push_back(operand);
      }
    }
    std::string op = words_.layer_op(main->origin);
    if (op.empty()) op = op_name(main->op);
    ViewBlock& here = block(layer);
    std::string role = report_.world_size == 1 ? "" : layer_role(plan_, *main, words_);
    std::string output =
        last->results.empty() ? "" : words_.placement(plan_.tensors[position(last->results[0])], last->origin);
    here.lines.push_back(
        {{name_in_block(layer), op, role, output, weights_text(layer, main->origin, weights)}, false, ""});
  }

  /// The step that says most about how a layer is split: attention before a contraction before the rest.
  static int weight_of_role(const PlanStep& step) {
    if (step.op == OpKind::kAttention) return 3;
    if (op_def(step.op).heavy || step.op == OpKind::kEmbedding) return 2;
    return step.op == OpKind::kReshape || step.op == OpKind::kFill ? 0 : 1;
  }

  /// "weight, bias by heads": names grouped by placement.
  std::string weights_text(const std::string& layer, const std::string& origin, const std::vector<int>& weights) const {
    std::vector<std::pair<std::string, std::string>> groups;
    for (int weight : weights) {
      const PlanTensor& tensor = plan_.tensors[position(weight)];
      std::string name = tensor.name.starts_with(layer + ".") ? tensor.name.substr(layer.size() + 1)
                                                              : relative_to_block(tensor.name, block_of(layer));
      std::string placement = words_.placement(tensor, origin);
      auto same =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.second == placement; });
      if (same == groups.end()) {
        groups.emplace_back(name, placement);
      } else {
        same->first += ", " + name;
      }
    }
    std::string text;
    for (const auto& [names, placement] : groups) {
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", names, placement);
    }
    return text;
  }

  /// Backward and optimizer collectives, one line a block, phase, kind and axis.
  void add_later_phases() {
    struct Sum {
      const CollectiveRow* first = nullptr;
      int64_t count = 0;
      double phi = 0;
      int64_t bytes = 0;
      std::vector<std::string> layers;
    };
    using Key = std::tuple<Phase, std::string, OpKind>;
    std::vector<std::pair<std::string, std::map<Key, Sum>>> sums;
    std::map<std::string, size_t> index;
    for (const CollectiveRow& row : report_.collectives) {
      if (row.phase == Phase::kForward) continue;
      auto [found, is_new] = index.try_emplace(row.block, sums.size());
      if (is_new) sums.push_back({row.block, {}});
      Sum& sum = sums[found->second].second[{row.phase, row.axis, row.kind}];
      if (sum.first == nullptr) sum.first = &row;
      ++sum.count;
      sum.phi += row.volume_phi;
      sum.bytes += row.received_bytes_max;
      std::string layer = name_in_block(row.layer);
      if (std::find(sum.layers.begin(), sum.layers.end(), layer) == sum.layers.end()) sum.layers.push_back(layer);
    }
    for (const auto& [name, of_block] : sums) {
      ViewBlock& here = block(of_block.begin()->second.first->layer);
      for (const auto& [key, sum] : of_block) {
        std::string times = sum.count == 1 ? "" : fmt::format("{} x ", sum.count);
        std::string text =
            fmt::format("-> {}: {}{} {}  {}  {}", to_string(std::get<0>(key)), times, op_name(std::get<2>(key)),
                        std::get<1>(key), phi_text(sum.phi), bytes_text(sum.bytes));
        std::string why = sum.count == 1 ? relative_to_block(sum.first->why, sum.first->block)
                                         : fmt::format("gradients made by {}", fmt::join(sum.layers, ", "));
        here.lines.push_back({{text}, true, why});
      }
    }
  }

  std::string table() const {
    std::vector<std::string> names;
    std::vector<std::string> contents;
    for (const ViewBlock& item : blocks_) {
      names.push_back(item.name);
      contents.push_back(item.content());
    }
    TextTable table("lllll");
    if (report_.world_size == 1) {
      table.add_row({"layer", "op", "", "output", "weights"});
    } else {
      table.add_row({"layer", "op", "split", "output", "weights"});
    }
    for (const BlockRun& run : find_runs(names, contents)) {
      const ViewBlock& shown = blocks_[run.first + (run.count > 1 ? 1 : 0)];
      std::string indent = shown.is_single_layer ? "" : "  ";
      if (!shown.is_single_layer) table.add_line(run_name(names, run));
      for (const ViewLine& line : shown.lines) {
        std::vector<std::string> cells = line.cells;
        cells[0] = indent + cells[0];
        if (line.is_collective) {
          table.add_line("  " + cells[0] + (line.why.empty() ? "" : "  " + line.why));
        } else {
          table.add_row(std::move(cells));
        }
      }
    }
    return table.text();
  }

  std::string totals() const {
    std::string text;
    if (report_.world_size > 1) {
      text += fmt::format("A step: {} collective{}, {}, {} received by the fullest rank", report_.step.collectives,
                          report_.step.collectives == 1 ? "" : "s", phi_text(report_.step.volume_phi),
                          bytes_text(report_.step.received_bytes));
      std::string parts;
      for (const VolumeTotal& total : report_.by_phase) {
        parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", total.name, bytes_text(total.received_bytes));
      }
      text += (parts.empty() ? "" : " (" + parts + ")") + "\n" + proof_text(report_);
    }
    const auto& ranks = report_.ranks;
    auto fullest = std::max_element(ranks.begin(), ranks.end(), [](const RankLoad& a, const RankLoad& b) {
      return a.parameter_bytes + a.peak_activation_bytes < b.parameter_bytes + b.peak_activation_bytes;
    });
    auto bytes = [](int64_t count) { return bytes_text(count); };
    text += fmt::format(
        "A rank: {} parameters, {} gradients, {} optimizer state, {} activations at their peak; arena {}\n",
        bytes(fullest->parameter_bytes), bytes(fullest->gradient_bytes), bytes(fullest->optimizer_state_bytes),
        bytes(fullest->peak_activation_bytes), bytes(plan_.arena_bytes));
    double most = 0;
    for (const RankLoad& rank : ranks) most = std::max(most, rank.multiply_adds);
    text += fmt::format("Work: {} multiply-adds a step on the fullest rank", count_text(most));
    const Imbalance* largest = nullptr;
    for (const Imbalance& imbalance : report_.imbalances) {
      if (imbalance.is_notable() && (largest == nullptr || imbalance.ratio() > largest->ratio())) largest = &imbalance;
    }
    if (report_.world_size > 1) {
      text += largest == nullptr ? "; all ranks carry the same load"
                                 : fmt::format("; largest imbalance: {}, rank {} has {:.4g} times the mean",
                                               largest->quantity, largest->fullest_rank, largest->ratio());
    }
    return text + "\n";
  }

  const Plan& plan_;
  ModelWords words_;
  Report report_;
  std::map<int, size_t> row_of_step_;
  std::map<std::string, std::vector<int>> steps_of_layer_;
  std::vector<ViewBlock> blocks_;
  std::map<std::string, size_t> block_index_;
};

}  // namespace

std::string plan_text(const Plan& plan) { return PlanView(plan).run(); }

}  // namespace tpc
