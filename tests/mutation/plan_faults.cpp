#include "tests/mutation/plan_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/mutation/plan_edit.h"

namespace tpc::testing {
namespace {

const PlanTensor& tensor_of(const Plan& plan, int index) { return plan.tensors[static_cast<size_t>(index)]; }

bool is_reduction(const PlanStep& step) { return step.op == OpKind::kAllReduce || step.op == OpKind::kReduceScatter; }

std::string at_step(const Plan& plan, size_t i) {
  const PlanStep& step = plan.steps[i];
  const std::vector<int>& named = step.results.empty() ? step.operands : step.results;
  return fmt::format("step {} ({} \"{}\")", i, op_name(step.op), named.empty() ? "" : tensor_of(plan, named[0]).name);
}

/// A reduction, gather, slice or mask is not made: gradients of norms and biases, of tied tables, of shared heads and
/// over dp, the parts of the loss and of the gradient norm, updated shards.
void leave_out_moves(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!is_move(plan.steps[i].op)) continue;
    visit(
        [=, &plan](Plan& faulty) {
          read_instead(faulty, plan.steps[i].results[0], plan.steps[i].operands[0]);
          remove_step(faulty, i);
        },
        "left out: " + at_step(plan, i));
  }
}

void reduce_twice(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kAllReduce) continue;
    visit(
        [=, &plan](Plan& faulty) {
          int once = plan.steps[i].results[0];
          int twice = add_tensor(faulty, once, tensor_of(plan, once).sharding);
          read_instead(faulty, once, twice, i + 1);
          PlanStep again = plan.steps[i];
          again.operands = {once};
          again.results = {twice};
          insert_step(faulty, i + 1, again);
        },
        "reduced twice: " + at_step(plan, i));
  }
}

/// What every rank of an axis holds alike is added up over it.
void reduce_what_is_whole(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int result : plan.steps[i].results) {
      const PlanTensor& made = tensor_of(plan, result);
      if (made.type.dtype != DType::kF32 || readers(plan, result).empty()) continue;
      for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
        if (!made.sharding.placements[axis].is_replicate() || plan.mesh.axis_size(axis) == 1) continue;
        visit(
            [=, &plan](Plan& faulty) {
              int sum = add_tensor(faulty, result, made.sharding);
              read_instead(faulty, result, sum, i + 1);
              PlanStep reduce = plan.steps[i];
              reduce.op = OpKind::kAllReduce;
              reduce.operands = {result};
              reduce.results = {sum};
              reduce.attributes = {{"axes", std::vector<int64_t>{static_cast<int64_t>(axis)}}, {"op", "sum"}};
              insert_step(faulty, i + 1, reduce);
            },
            fmt::format("summed over axis {} though whole: {}", axis, at_step(plan, i)));
      }
    }
  }
}

/// The mean for the sum, 1/(batch * seq) of the shard for that of the whole: a factor where none belongs.
void scale_results(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].results.empty() || (!is_reduction(plan.steps[i]) && plan.steps[i].phase == Phase::kForward))
      continue;
    int result = plan.steps[i].results[0];
    const PlanTensor& made = tensor_of(plan, result);
    if (made.type.dtype != DType::kF32 || readers(plan, result).empty()) continue;
    visit(
        [=, &plan](Plan& faulty) {
          int scaled = add_tensor(faulty, result, made.sharding);
          read_instead(faulty, result, scaled, i + 1);
          PlanStep scale = plan.steps[i];
          scale.op = OpKind::kScale;
          scale.operands = {result};
          scale.results = {scaled};
          scale.attributes = {{"factor", 0.5}};
          insert_step(faulty, i + 1, scale);
        },
        "halved: " + at_step(plan, i));
  }
}

/// A bias or residual is added, or a function applied, before the sum is there instead of after.
void reduce_later(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kAllReduce) continue;
    int part = plan.steps[i].operands[0];
    int sum = plan.steps[i].results[0];
    std::vector<size_t> uses = readers(plan, sum);
    for (size_t use : uses) {
      const PlanStep& user = plan.steps[use];
      if (user.results.size() != 1 || user.op == OpKind::kOutput || is_move(user.op)) continue;
      const Shape& shape = tensor_of(plan, user.results[0]).type.shape;
      if (why_illegal(shape, tensor_of(plan, part).sharding, plan.mesh)) continue;
      visit(
          [=, &plan](Plan& faulty) {
            int result = user.results[0];
            int early = add_tensor(faulty, result, tensor_of(plan, part).sharding);
            PlanStep reduce = plan.steps[i];
            for (int& operand : faulty.steps[use].operands) operand = operand == sum ? part : operand;
            faulty.steps[use].results = {early};
            reduce.operands = {early};
            reduce.results = {result};
            insert_step(faulty, use + 1, reduce);
          },
          "reduced after instead of before: " + at_step(plan, use));
    }
  }
}

/// Along another axis of the mesh, or not along one of them.
void move_among_others(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!is_move(plan.steps[i].op)) continue;
    const std::vector<int64_t>& axes = plan.steps[i].attributes.get_ints("axes");
    auto with = [&](std::vector<int64_t> other) {
      if (other == axes || other.empty()) return;
      visit([=, &plan](Plan& faulty) { faulty.steps[i].attributes.set("axes", other); },
            "among other ranks: " + at_step(plan, i));
    };
    for (int64_t axis = 0; axis < static_cast<int64_t>(plan.mesh.num_axes()); ++axis) with({axis});
    for (int64_t axis : axes) {
      std::vector<int64_t> fewer = axes;
      fewer.erase(std::find(fewer.begin(), fewer.end(), axis));
      with(fewer);
    }
  }
}

void change_moves(const Plan& plan, const VisitFault& visit) {
  constexpr std::array kMoves = {OpKind::kAllReduce,  OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll,
                                 OpKind::kLocalSlice, OpKind::kMask,          OpKind::kZeroPad};
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (!is_move(plan.steps[i].op)) continue;
    for (OpKind other : kMoves) {
      if (other == plan.steps[i].op) continue;
      visit(
          [=, &plan](Plan& faulty) {
            faulty.steps[i].op = other;
            bool reduces = other == OpKind::kAllReduce || other == OpKind::kReduceScatter;
            if (reduces) faulty.steps[i].attributes.set("op", "sum");
          },
          fmt::format("{} made {}", at_step(plan, i), op_name(other)));
    }
  }
}

void swap_operands(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    for (size_t k = 0; k + 1 < step.operands.size(); ++k) {
      if (step.operands[k] == step.operands[k + 1]) continue;
      visit([=, &plan](Plan& faulty) { std::swap(faulty.steps[i].operands[k], faulty.steps[i].operands[k + 1]); },
            fmt::format("operands {} and {} swapped: {}", k, k + 1, at_step(plan, i)));
    }
  }
}

/// Another layer's weight or saved activation, a gradient or state of another tensor: the nearest ones of the same kind
/// before and after, in the order of tensors.
void read_other_tensors(const Plan& plan, const VisitFault& visit) {
  std::vector<size_t> made_at(plan.tensors.size(), 0);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (int result : plan.steps[i].results) made_at[static_cast<size_t>(result)] = i + 1;
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (size_t k = 0; k < plan.steps[i].operands.size(); ++k) {
      auto operand = static_cast<std::ptrdiff_t>(plan.steps[i].operands[k]);
      const PlanTensor& read = plan.tensors[static_cast<size_t>(operand)];
      for (std::ptrdiff_t by : {-1, 1}) {
        for (std::ptrdiff_t t = operand + by; t >= 0 && t < std::ssize(plan.tensors); t += by) {
          const PlanTensor& instead = plan.tensors[static_cast<size_t>(t)];
          if (made_at[static_cast<size_t>(t)] > i || instead.type != read.type || instead.sharding != read.sharding)
            continue;
          visit([=, &plan](Plan& faulty) { faulty.steps[i].operands[k] = static_cast<int>(t); },
                fmt::format("\"{}\" read for \"{}\": {}", instead.name, read.name, at_step(plan, i)));
          break;
        }
      }
    }
  }
}

/// One of two gradients of a tied table, or of a value with two uses.
void leave_out_terms(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kAdd) continue;
    for (int term : plan.steps[i].operands) {
      visit(
          [=, &plan](Plan& faulty) {
            read_instead(faulty, plan.steps[i].results[0], term);
            remove_step(faulty, i);
          },
          fmt::format("only \"{}\" of {}", tensor_of(plan, term).name, at_step(plan, i)));
    }
  }
}

void change_attribute(const Plan& plan, size_t i, const std::string& name, const VisitFault& visit) {
  auto with = [&](Attribute changed) {
    visit([=, &plan](Plan& faulty) { faulty.steps[i].attributes.set(name, changed); },
          fmt::format("other \"{}\": {}", name, at_step(plan, i)));
  };
  const Attribute& value = plan.steps[i].attributes.items().at(name);
  if (const bool* flag = std::get_if<bool>(&value)) with(!*flag);
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    with(*number + 1);
    with(*number - 1);
  }
  if (const double* number = std::get_if<double>(&value)) with(*number * 1.5);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value); list != nullptr && list->size() > 1)
    with(std::vector<int64_t>(list->rbegin(), list->rend()));
  if (const std::string* text = std::get_if<std::string>(&value)) {
    // What the same op has elsewhere: another layer's dropout, another function, the maximum for the sum.
    for (const PlanStep& other : plan.steps) {
      if (other.op != plan.steps[i].op || !other.attributes.has(name)) continue;
      if (other.attributes.get_string(name) == *text) continue;
      with(other.attributes.get_string(name));
      break;
    }
    if (name == "op") with(*text == "sum" ? "max" : "sum");
  }
}

void change_attributes(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const auto& [name, value] : plan.steps[i].attributes.items()) change_attribute(plan, i, name, visit);
  }
}

/// Casts left out, made again, and moved to the other side of the collective that completes their operand; sums made in
/// another type.
void change_types(const Plan& plan, const VisitFault& visit) {
  std::vector<int> made_by = producers(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.attributes.has("sums"))
      visit([=](Plan& faulty) { faulty.steps[i].attributes.erase("sums"); }, "sums rounded: " + at_step(plan, i));
    for (int result : step.results) {
      DType other = tensor_of(plan, result).type.dtype == DType::kF32 ? DType::kBF16 : DType::kF32;
      visit(
          [=](Plan& faulty) {
            PlanTensor& made = faulty.tensors[static_cast<size_t>(result)];
            made.type.dtype = other;
            made.bytes = std::max(made.bytes, byte_size(made.type));
          },
          fmt::format("\"{}\" as {}: {}", tensor_of(plan, result).name, to_string(other), at_step(plan, i)));
    }
    if (step.op != OpKind::kCast) continue;
    visit(
        [=, &plan](Plan& faulty) {
          read_instead(faulty, step.results[0], step.operands[0]);
          remove_step(faulty, i);
        },
        "left out: " + at_step(plan, i));
    visit(
        [=, &plan](Plan& faulty) {
          int twice = add_tensor(faulty, step.results[0], tensor_of(plan, step.results[0]).sharding);
          read_instead(faulty, step.results[0], twice, i + 1);
          PlanStep again = step;
          again.operands = {step.results[0]};
          again.results = {twice};
          insert_step(faulty, i + 1, again);
        },
        "made twice: " + at_step(plan, i));
    int made_at = made_by[static_cast<size_t>(step.operands[0])];
    if (made_at < 0 || !is_reduction(plan.steps[static_cast<size_t>(made_at)])) continue;
    visit(
        [=, &plan](Plan& faulty) {
          PlanStep reduce = plan.steps[static_cast<size_t>(made_at)];
          int rounded = add_tensor(faulty, step.results[0], tensor_of(plan, reduce.operands[0]).sharding);
          PlanStep early = step;
          early.operands = reduce.operands;
          early.results = {rounded};
          reduce.operands = {rounded};
          reduce.results = step.results;
          faulty.steps[static_cast<size_t>(made_at)] = early;
          faulty.steps[i] = reduce;
        },
        "reduced after instead of before: " + at_step(plan, i));
  }
}

/// How a weight starts, and whether it is trained.
void change_leaves(const Plan& plan, const VisitFault& visit) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    for (const auto& [name, value] : plan.tensors[t].attributes.items()) {
      visit(
          [=, &plan](Plan& faulty) {
            if (const double* number = std::get_if<double>(&value))
              faulty.tensors[t].attributes.set(name, *number * 1.5);
            if (const bool* flag = std::get_if<bool>(&value)) faulty.tensors[t].attributes.set(name, !*flag);
            if (const std::string* text = std::get_if<std::string>(&value); text != nullptr && name == "init")
              faulty.tensors[t].attributes.set(name, *text == "zeros" ? "ones" : "zeros");
          },
          fmt::format("other \"{}\" of \"{}\"", name, plan.tensors[t].name));
    }
  }
}

void change_placements(const Plan& plan, const VisitFault& visit) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
      std::vector<Placement> others{Placement::replicate(), Placement::partial(), Placement::partial(ReduceOp::kMax)};
      for (size_t d = 0; d < tensor.type.shape.size(); ++d) {
        if (tensor.type.shape[d] >= plan.mesh.world_size()) others.push_back(Placement::shard(static_cast<int64_t>(d)));
      }
      for (const Placement& other : others) {
        if (other == tensor.sharding.placements[axis]) continue;
        visit(
            [=, &plan](Plan& faulty) {
              faulty.tensors[t].sharding.placements[axis] = other;
              faulty.tensors[t].bytes = std::max(tensor.bytes, byte_size(tensor.type));
            },
            fmt::format("\"{}\" {} on axis {}", tensor.name, to_string(other), axis));
      }
    }
  }
}

void leave_out_ends(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kUpdate) continue;
    visit([=, &plan](Plan& faulty) { remove_step(faulty, i); }, "left out: " + at_step(plan, i));
    visit([=, &plan](Plan& faulty) { faulty.steps.push_back(plan.steps[i]); }, "made twice: " + at_step(plan, i));
  }
  for (const auto& [name, tensor] : plan.outputs) {
    visit([=, &plan](Plan& faulty) { faulty.outputs.erase(name); }, "output left out: " + name);
    visit([=, &plan](Plan& faulty) { faulty.outputs["extra"] = tensor; }, "output of no model's");
  }
}

/// Two neighbours in the other order: what is read before it is made is refused; the others may be the same plan.
void swap_steps(const Plan& plan, const VisitFault& visit) {
  for (size_t i = 0; i + 1 < plan.steps.size(); ++i) {
    visit([=, &plan](Plan& faulty) { std::swap(faulty.steps[i], faulty.steps[i + 1]); },
          "before its neighbour: " + at_step(plan, i + 1));
  }
}

/// To where the tensors before and after lie, so that one is written over the other.
void move_buffers(const Plan& plan, const VisitFault& visit) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    for (size_t other : {t + 1, t + 2, t + 5}) {
      if (other >= plan.tensors.size() || plan.tensors[t].offset == plan.tensors[other].offset) continue;
      if (plan.tensors[other].offset + plan.tensors[t].bytes > plan.arena_bytes) continue;
      visit([=, &plan](Plan& faulty) { faulty.tensors[t].offset = plan.tensors[other].offset; },
            fmt::format("\"{}\" in the place of \"{}\"", plan.tensors[t].name, plan.tensors[other].name));
    }
  }
}

constexpr std::array kPlanFaults = {
    PlanFault{"moves left out", leave_out_moves},
    PlanFault{"reduced twice", reduce_twice},
    PlanFault{"whole values summed", reduce_what_is_whole},
    PlanFault{"scaled", scale_results},
    PlanFault{"reduced too late", reduce_later},
    PlanFault{"among other ranks", move_among_others},
    PlanFault{"other moves", change_moves},
    PlanFault{"operands swapped", swap_operands},
    PlanFault{"other tensors read", read_other_tensors},
    PlanFault{"terms left out", leave_out_terms},
    PlanFault{"other attributes", change_attributes},
    PlanFault{"other types", change_types},
    PlanFault{"other leaves", change_leaves},
    PlanFault{"other placements", change_placements},
    PlanFault{"ends left out", leave_out_ends},
    PlanFault{"steps swapped", swap_steps},
    PlanFault{"buffers moved", move_buffers},
};

}  // namespace

std::span<const PlanFault> plan_faults() { return kPlanFaults; }

}  // namespace tpc::testing
