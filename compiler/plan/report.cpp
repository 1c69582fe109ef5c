#include "compiler/plan/report.h"

#include <algorithm>
#include <functional>

#include "compiler/plan/plan_classes.h"
#include "compiler/plan/rank_load.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/sharding/move_price.h"

namespace tpc {
namespace {

/// Worlds up to this size are told rank by rank (see representative_coordinates).
constexpr int64_t kSmallWorld = 64;

size_t position(int index) { return static_cast<size_t>(index); }

PhiUnit find_phi(const Plan& plan) {
  auto unit_of = [&](int tensor) {
    const PlanTensor& found = plan.tensors[position(tensor)];
    // The batch comes first, and dp splits it: the same unit for all plans of a model on a mesh, however this tensor
    // lies.
    TensorSharding over_dp = TensorSharding::replicated(plan.mesh);
    for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
      bool is_dp = user_axis(plan.mesh.axes()[axis].name) == "dp";
      if (is_dp && !found.type.shape.empty()) over_dp.placements[axis] = Placement::shard(0);
    }
    Shape shape = fullest_shape(found.type.shape, over_dp, plan.mesh);
    return PhiUnit{num_elements(shape), shape, found.type.shape, found.name};
  };
  for (const PlanStep& step : plan.steps) {
    if (step.op == OpKind::kEmbedding) return unit_of(step.results[0]);
  }
  for (TensorRole role : {TensorRole::kInput, TensorRole::kActivation}) {
    PhiUnit largest;
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      const PlanTensor& tensor = plan.tensors[i];
      bool is_larger = largest.tensor.empty() || num_elements(tensor.type.shape) > num_elements(largest.whole_shape);
      if (tensor.role == role && is_float(tensor.type.dtype) && is_larger) largest = unit_of(static_cast<int>(i));
    }
    if (!largest.tensor.empty()) return largest;
  }
  return {};
}

/// Where a collective's tensor comes from: the tensor and the step behind a chain of moves (step -1: it persists).
struct Origin {
  int tensor = 0;
  int step = -1;
};

class ReportBuilder {
 public:
  explicit ReportBuilder(const Plan& plan) : plan_(plan), classes_(classify(plan)) {
    made_by_.assign(plan.tensors.size(), -1);
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      for (int result : plan.steps[i].results) made_by_[position(result)] = static_cast<int>(i);
    }
  }

  Report run() {
    report_.model = plan_.model_name;
    report_.mesh = plan_.mesh;
    report_.options = plan_.options;
    report_.proof = plan_.proof;
    auto precision = plan_.options.find("precision");
    if (precision != plan_.options.end()) report_.precision = parse_precision(precision->second).value_or(Precision{});
    read_links();
    report_.world_size = plan_.mesh.world_size();
    report_.arena_bytes = plan_.arena_bytes;
    report_.persistent_bytes = plan_.persistent_bytes;
    report_.phi = find_phi(plan_);
    report_.has_all_ranks = report_.world_size <= kSmallWorld;
    report_.ranks = sample_ranks(plan_, classes_);
    add_memory_and_work(plan_, classes_, report_.ranks);
    add_collectives();
    add_totals();
    add_imbalances();
    add_comparison();
    return std::move(report_);
  }

 private:
  /// What all collectives of a step class share: the row without names, and what each sampled rank receives.
  struct MoveFigures {
    CollectiveRow row;
    std::vector<int64_t> received;
  };

  /// A plan that was edited by hand may lack a link: then no time is told.
  void read_links() {
    auto text = plan_.options.find("links");
    if (text == plan_.options.end()) return;
    std::optional<std::vector<AxisLink>> links = parse_links(text->second);
    if (!links) return;
    for (const MeshAxis& axis : plan_.mesh.axes()) {
      bool known = std::any_of(links->begin(), links->end(),
                               [&](const AxisLink& link) { return link.axis == user_axis(axis.name); });
      if (!known) return;
    }
    report_.has_links = !links->empty();
    time_ = MovePrice(std::move(*links));
  }

  Origin origin_of(int tensor) const {
    Origin origin{tensor, made_by_[position(tensor)]};
    while (origin.step >= 0 && is_move(plan_.steps[position(origin.step)].op)) {
      origin.tensor = plan_.steps[position(origin.step)].operands[0];
      origin.step = made_by_[position(origin.tensor)];
    }
    return origin;
  }

  MoveFigures figures_of(const PlanStep& step) const {
    Move move = step_move(plan_, step);
    const TensorType& type = plan_.tensors[position(step.operands[0])].type;
    int64_t element_size = byte_size(type.dtype);
    MoveFigures figures;
    CollectiveRow& row = figures.row;
    row.axis = axes_name(plan_.mesh, move.axes);
    row.kind = step.op;
    row.dtype = type.dtype;
    row.group_size = plan_.mesh.group_size(move.axes);
    std::vector<int64_t> first(plan_.mesh.num_axes(), 0);
    row.elements = volume_elements(move, type.shape, plan_.mesh, first);
    row.volume_elements = static_cast<double>(row.elements);
    if (step.op == OpKind::kAllReduce) row.volume_elements *= 2;
    if (step.op == OpKind::kAllToAll) row.volume_elements /= static_cast<double>(row.group_size);
    row.volume_phi = row.volume_elements / static_cast<double>(report_.phi.elements);
    row.ring_bytes = row.volume_elements * static_cast<double>((row.group_size - 1) * element_size) /
                     static_cast<double>(row.group_size);
    for (const RankLoad& rank : report_.ranks) {
      figures.received.push_back(received_elements(move, type.shape, plan_.mesh, rank.coordinate) * element_size);
    }
    row.received_bytes_max = max_received_elements(move, type.shape, plan_.mesh) * element_size;
    if (report_.has_links) row.seconds = static_cast<double>(time_(move, type.shape, element_size, plan_.mesh)) * 1e-12;
    row.received_bytes_min = *std::min_element(figures.received.begin(), figures.received.end());
    return figures;
  }

  void add_collectives() {
    figures_.resize(classes_.step_examples.size());
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      if (!is_collective(step.op)) continue;
      std::optional<MoveFigures>& figures = figures_[position(classes_.steps[i])];
      if (!figures) figures = figures_of(step);
      CollectiveRow row = figures->row;
      Origin origin = origin_of(step.operands[0]);
      row.step = static_cast<int>(i);
      row.tensor = plan_.tensors[position(origin.tensor)].name;
      row.layer = origin.step < 0 ? step.layer : plan_.steps[position(origin.step)].layer;
      row.block = block_of(row.layer);
      row.phase = step.phase;
      row.why = step.why;
      report_.collectives.push_back(std::move(row));
      received_.push_back(&figures->received);
      for (size_t r = 0; r < report_.ranks.size(); ++r) report_.ranks[r].received_bytes += figures->received[r];
    }
  }

  void add_totals() {
    std::vector<VolumeTotal>* totals[] = {&report_.by_layer, &report_.by_block, &report_.by_phase, &report_.by_axis,
                                          &report_.by_kind};
    const std::function<std::string(const CollectiveRow&)> names[] = {
        [](const CollectiveRow& row) { return row.layer; }, [](const CollectiveRow& row) { return row.block; },
        [](const CollectiveRow& row) { return std::string(to_string(row.phase)); },
        [](const CollectiveRow& row) { return row.axis; },
        [](const CollectiveRow& row) { return std::string(op_name(row.kind)); }};
    for (size_t i = 0; i < std::size(totals); ++i) *totals[i] = totals_by(names[i]);
    std::vector<VolumeTotal> step = totals_by([](const CollectiveRow&) { return std::string("step"); });
    report_.step = step.empty() ? VolumeTotal{"step"} : step[0];
  }

  std::vector<VolumeTotal> totals_by(const std::function<std::string(const CollectiveRow&)>& name_of) const {
    std::vector<VolumeTotal> totals;
    std::vector<std::vector<int64_t>> per_rank;
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < report_.collectives.size(); ++i) {
      const CollectiveRow& row = report_.collectives[i];
      auto [found, is_new] = index.try_emplace(name_of(row), totals.size());
      if (is_new) {
        totals.push_back({found->first});
        per_rank.emplace_back(report_.ranks.size(), 0);
      }
      VolumeTotal& total = totals[found->second];
      ++total.collectives;
      total.volume_elements += row.volume_elements;
      total.volume_phi += row.volume_phi;
      total.seconds += row.seconds;
      for (size_t r = 0; r < report_.ranks.size(); ++r) per_rank[found->second][r] += (*received_[i])[r];
    }
    for (size_t i = 0; i < totals.size(); ++i) {
      totals[i].received_bytes = *std::max_element(per_rank[i].begin(), per_rank[i].end());
    }
    return totals;
  }

  void add_imbalances() {
    auto add = [&](std::string quantity, auto&& value_of) {
      Imbalance imbalance{std::move(quantity), 0, 0, 0, 0};
      double sum = 0;
      double ranks = 0;
      for (const RankLoad& rank : report_.ranks) {
        double value = static_cast<double>(value_of(rank));
        if (ranks == 0 || value > imbalance.most) {
          imbalance.most = value;
          imbalance.fullest_rank = rank.rank;
        }
        imbalance.least = ranks == 0 ? value : std::min(imbalance.least, value);
        sum += value * static_cast<double>(rank.ranks_like_it);
        ranks += static_cast<double>(rank.ranks_like_it);
      }
      imbalance.mean = sum / ranks;
      report_.imbalances.push_back(std::move(imbalance));
    };
    add("parameters", [](const RankLoad& rank) { return rank.parameters; });
    add("optimizer state", [](const RankLoad& rank) { return rank.optimizer_state_bytes; });
    add("peak activations", [](const RankLoad& rank) { return rank.peak_activation_bytes; });
    add("multiply-adds", [](const RankLoad& rank) { return rank.multiply_adds; });
    add("received", [](const RankLoad& rank) { return rank.received_bytes; });
  }

  void add_comparison() {
    const Shape& shape = report_.phi.whole_shape;
    if (shape.empty() || report_.world_size == 1) return;
    DataAgainstTensor result;
    result.hidden = shape.back();
    result.tokens = num_elements(shape) / result.hidden;
    for (const PlanTensor& tensor : plan_.tensors) {
      bool is_trained = tensor.role == TensorRole::kParameter && tensor.attributes.has("trainable") &&
                        tensor.attributes.get_bool("trainable");
      if (is_trained) result.data_elements += 2 * static_cast<double>(num_elements(tensor.type.shape));
    }
    // Volumes are those of one replica; b·s counts the whole batch.
    double replicas = 1;
    for (const MeshAxis& axis : plan_.mesh.axes()) {
      if (user_axis(axis.name) == "dp") replicas *= static_cast<double>(axis.size);
    }
    for (const CollectiveRow& row : report_.collectives) {
      if (row.axis != "dp" && row.phase != Phase::kOptimizer) result.tensor_elements += row.volume_elements * replicas;
    }
    if (result.tensor_elements > 0) {
      result.equal_tokens = static_cast<double>(result.tokens) * result.data_elements / result.tensor_elements;
    }
    report_.data_against_tensor = result;
  }

  const Plan& plan_;
  PlanClasses classes_;
  std::vector<int> made_by_;
  Report report_;
  MovePrice time_;
  /// Of step classes; only collectives have them.
  std::vector<std::optional<MoveFigures>> figures_;
  /// Per collective row, what each sampled rank receives.
  std::vector<const std::vector<int64_t>*> received_;
};

}  // namespace

Report make_report(const Plan& plan) { return ReportBuilder(plan).run(); }

}  // namespace tpc
