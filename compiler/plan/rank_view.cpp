// The program of one rank, a line a step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/core/check.h"
#include "compiler/plan/plan_classes.h"
#include "compiler/plan/plan_view.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

/// Groups longer than this are told by their ends.
constexpr size_t kMaxListed = 8;

size_t position(int index) { return static_cast<size_t>(index); }

class RankView {
 public:
  RankView(const Plan& plan, int64_t rank)
      : plan_(plan), rank_(rank), coordinate_(plan.mesh.coordinate(rank)), classes_(classify(plan)) {
    for (int example : classes_.tensor_examples) {
      const PlanTensor& tensor = plan.tensors[position(example)];
      parts_.push_back(part_text(tensor));
    }
    for (int example : classes_.step_examples) notes_.push_back(note(plan.steps[position(example)]));
  }

  std::string run() const {
    std::string text = fmt::format("{} on {}: rank {} of {}", plan_.model_name, to_string(plan_.mesh), rank_,
                                   grouped(plan_.mesh.world_size()));
    std::string place;
    for (size_t i = 0; i < coordinate_.size(); ++i) {
      place += fmt::format("{}{} {}", i == 0 ? "" : ", ", plan_.mesh.axes()[i].name, coordinate_[i]);
    }
    text += (place.empty() ? "" : " (" + place + ")") + fmt::format(", arena {} bytes\n", grouped(plan_.arena_bytes));
    text +=
        "A part is its shape here; of a split dimension the indices begin..end are told. @ is the offset in the "
        "arena.\n\n";
    TextTable held("lllr");
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      const PlanTensor& tensor = plan_.tensors[i];
      if (persists(tensor.role)) {
        held.add_row({std::string(to_string(tensor.role)), tensor.name, part(static_cast<int>(i)),
                      fmt::format("@{}", tensor.offset)});
      }
    }
    text += held.text() + "\n";
    TextTable steps("rllllrl");
    steps.add_row({"step", "phase", "op", "result", "part", "", "operands"});
    for (size_t i = 0; i < plan_.steps.size(); ++i) add_step(i, steps);
    return text + steps.text();
  }

 private:
  const std::string& part(int tensor) const { return parts_[position(classes_.tensors[position(tensor)])]; }

  /// "f32[4, 32, 64] 2:64..128": the local shape, and where it lies in the whole tensor.
  std::string part_text(const PlanTensor& tensor) const {
    Region region = local_region(tensor.type.shape, tensor.sharding, plan_.mesh, coordinate_);
    std::string text = to_string(TensorType{tensor.type.dtype, region.extents()});
    for (size_t dim = 0; dim < region.dims.size(); ++dim) {
      if (region.dims[dim].size() == tensor.type.shape[dim]) continue;
      text += fmt::format(" {}:{}..{}", dim, region.dims[dim].begin, region.dims[dim].end);
    }
    return tensor.sharding.has_partial() ? text + " partial" : text;
  }

  /// Groups and bytes of collectives.
  std::string note(const PlanStep& step) const {
    if (!is_collective(step.op)) return "";
    Move move = step_move(plan_, step);
    std::vector<int64_t> group = plan_.mesh.group(move.axes, rank_);
    std::string ranks = group.size() <= kMaxListed
                            ? fmt::format("{}", fmt::join(group, ", "))
                            : fmt::format("{}, {}, ... {} ({} ranks)", group[0], group[1], group.back(), group.size());
    const TensorType& type = plan_.tensors[position(step.operands[0])].type;
    int64_t bytes = received_elements(move, type.shape, plan_.mesh, coordinate_) * byte_size(type.dtype);
    return fmt::format("  over {} with ranks {}: receives {} bytes", axes_name(plan_.mesh, move.axes), ranks,
                       grouped(bytes));
  }

  void add_step(size_t index, TextTable& table) const {
    const PlanStep& step = plan_.steps[index];
    std::vector<std::string> operands;
    for (int operand : step.operands) operands.push_back(plan_.tensors[position(operand)].name);
    std::string last = fmt::format("{}{}", fmt::join(operands, ", "), notes_[position(classes_.steps[index])]);
    std::vector<std::string> cells{fmt::format("{}", index), std::string(to_string(step.phase)),
                                   std::string(op_name(step.op))};
    if (step.results.empty()) {
      cells.insert(cells.end(), {"", "", "", last});
      table.add_row(std::move(cells));
      return;
    }
    for (size_t i = 0; i < step.results.size(); ++i) {
      const PlanTensor& result = plan_.tensors[position(step.results[i])];
      if (i > 0) cells.assign({"", "", ""});
      cells.insert(cells.end(),
                   {result.name, part(step.results[i]), fmt::format("@{}", result.offset), i == 0 ? last : ""});
      table.add_row(cells);
    }
  }

  const Plan& plan_;
  int64_t rank_;
  std::vector<int64_t> coordinate_;
  PlanClasses classes_;
  std::vector<std::string> parts_;  ///< of tensor classes
  std::vector<std::string> notes_;  ///< of step classes
};

}  // namespace

std::string rank_text(const Plan& plan, int64_t rank) {
  TPC_CHECK(rank >= 0 && rank < plan.mesh.world_size(), "rank {} of {}", rank, plan.mesh.world_size());
  return RankView(plan, rank).run();
}

}  // namespace tpc
