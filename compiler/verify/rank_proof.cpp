#include "compiler/verify/rank_proof.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/verify/proved_classes.h"

namespace tpc::verify {
namespace {

/// "[0:4, 8:16]".
std::string text_of(const Region& region) {
  std::vector<std::string> dims;
  for (const Interval& dim : region.dims) dims.push_back(fmt::format("{}:{}", dim.begin, dim.end));
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

int64_t overlap(const Region& a, const Region& b) {
  int64_t elements = 1;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    int64_t begin = std::max(a.dims[d].begin, b.dims[d].begin);
    int64_t end = std::min(a.dims[d].end, b.dims[d].end);
    elements *= std::max<int64_t>(0, end - begin);
  }
  return elements;
}

/// The first list entry that differs, for messages about long groups.
std::string difference_text(const std::vector<int64_t>& found, const std::vector<int64_t>& wanted) {
  if (found.size() != wanted.size()) return fmt::format("{} ranks, not {}", found.size(), wanted.size());
  auto at = std::mismatch(found.begin(), found.end(), wanted.begin());
  return fmt::format("rank {} as number {}, where rank {} belongs", *at.first, at.first - found.begin(), *at.second);
}

}  // namespace

RankProof::RankProof(const Plan& plan) : plan_(plan) {
  PlanClasses classes = proved_classes(plan);
  for (int example : classes.tensor_examples)
    cuts_.push_back(dim_cuts(plan.tensors[static_cast<size_t>(example)], plan.mesh));
  cuts_of_ = std::move(classes.tensors);
  std::map<Exchange, int> known;
  for (const PlanStep& step : plan.steps) {
    if (!is_collective(step.op) && step.op != OpKind::kMask) {
      exchange_of_.push_back(-1);
      continue;
    }
    Exchange exchange;
    exchange.op = step.op;
    for (int64_t axis : step.attributes.get_ints("axes")) exchange.axes |= axis_bit(static_cast<int>(axis));
    exchange.before = cuts_of_[static_cast<size_t>(step.operands[0])];
    exchange.after = cuts_of_[static_cast<size_t>(step.results[0])];
    exchange.element_bytes = byte_size(plan.tensors[static_cast<size_t>(step.operands[0])].type.dtype);
    auto [entry, is_new] = known.try_emplace(exchange, static_cast<int>(exchanges_.size()));
    if (is_new) exchanges_.push_back(exchange);
    exchange_of_.push_back(entry->second);
  }
}

std::optional<Flaw> RankProof::find_flaw(const RankPlan& program) {
  try {
    if (program.rank < 0 || program.rank >= plan_.mesh.world_size()) throw_flaw(-1, "there is no such rank");
    if (program.coordinate != plan_.mesh.coordinate(program.rank))
      throw_flaw(-1, "stands at {} of the mesh, not {}", program.coordinate, plan_.mesh.coordinate(program.rank));
    check_regions(program);
    check_order(program);
    check_moves(program);
  } catch (Flaw& flaw) {
    return std::move(flaw);
  }
  return std::nullopt;
}

/// `all_reduce "block0.proj@[R]"`.
std::string RankProof::described(int step) const {
  const PlanStep& s = plan_.steps[static_cast<size_t>(step)];
  const std::vector<int>& named = s.results.empty() ? s.operands : s.results;
  return fmt::format("{} \"{}\"", op_name(s.op),
                     named.empty() ? s.layer : plan_.tensors[static_cast<size_t>(named[0])].name);
}

Region RankProof::held_by(int cuts, std::span<const int64_t> coordinate) const {
  Region region;
  const std::vector<DimCuts>& dims = cuts_[static_cast<size_t>(cuts)];
  region.dims.reserve(dims.size());
  for (const DimCuts& dim : dims) region.dims.push_back(held(dim, coordinate));
  return region;
}

/// docs/report.md: an all_reduce is a reduce_scatter of the flattened tensor's balanced blocks and an all_gather.
int64_t RankProof::received_bytes(const Exchange& exchange, std::span<const int64_t> coordinate, int64_t index,
                                  int64_t members) const {
  Region before = held_by(exchange.before, coordinate);
  Region after = held_by(exchange.after, coordinate);
  int64_t elements = 0;
  switch (exchange.op) {
    case OpKind::kAllReduce: {
      int64_t all = before.num_elements();
      int64_t own = all / members + (index < all % members ? 1 : 0);
      elements = (members - 1) * own + all - own;
      break;
    }
    case OpKind::kReduceScatter:
      elements = (members - 1) * after.num_elements();
      break;
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
      elements = after.num_elements() - overlap(before, after);
      break;
    default:
      break;
  }
  return elements * exchange.element_bytes;
}

void RankProof::check_regions(const RankPlan& program) {
  if (!program.region_of || program.region_of->size() != plan_.tensors.size())
    throw_flaw(-1, "does not say where it has each of the {} tensors", plan_.tensors.size());
  if (program.region_of != known_region_of_) {
    regions_.clear();
    for (size_t t = 0; t < plan_.tensors.size(); ++t)
      regions_.try_emplace({cuts_of_[t], (*program.region_of)[t]}, static_cast<int>(t));
    known_region_of_ = program.region_of;
  }
  for (const auto& [pair, tensor] : regions_) {
    const std::string& name = plan_.tensors[static_cast<size_t>(tensor)].name;
    if (pair.second < 0 || static_cast<size_t>(pair.second) >= program.regions.size())
      throw_tensor_flaw(tensor, "has no part of \"{}\"", name);
    const Region& found = program.regions[static_cast<size_t>(pair.second)];
    const std::vector<DimCuts>& dims = cuts_[static_cast<size_t>(pair.first)];
    bool is_same = found.dims.size() == dims.size();
    for (size_t d = 0; is_same && d < dims.size(); ++d) is_same = found.dims[d] == held(dims[d], program.coordinate);
    if (!is_same) {
      throw_tensor_flaw(tensor, "holds {} of \"{}\", which lies so that it should hold {}", text_of(found), name,
                        text_of(held_by(pair.first, program.coordinate)));
    }
  }
}

void RankProof::check_order(const RankPlan& program) {
  if (!program.steps) throw_flaw(-1, "has no steps");
  if (program.steps == known_steps_) return;
  auto num_steps = static_cast<int>(plan_.steps.size());
  std::map<std::pair<int, int>, int> moves;
  int due = 0;
  for (const RankStep& step : *program.steps) {
    if (step.step < 0 || step.step >= num_steps) throw_flaw(-1, "runs step {} of {}", step.step, num_steps);
    if (due == num_steps) throw_flaw(step.step, "runs {} after the last step", described(step.step));
    int exchange = exchange_of_[static_cast<size_t>(step.step)];
    if (step.step != due) {
      bool others_wait = exchange_of_[static_cast<size_t>(due)] >= 0 || exchange >= 0;
      throw_flaw(step.step, "runs {} where the other ranks run {}{}", described(step.step), described(due),
                 others_wait ? ": its group would wait for it, or meet the wrong collective" : "");
    }
    if (exchange < 0 && step.move >= 0)
      throw_flaw(step.step, "has a group for {}, which works on one rank", described(step.step));
    if (exchange >= 0) moves.try_emplace({exchange, step.move}, step.step);
    ++due;
  }
  if (due != num_steps) throw_flaw(due, "ends before {}", described(due));
  moves_ = std::move(moves);
  known_steps_ = program.steps;
}

void RankProof::check_moves(const RankPlan& program) {
  for (const auto& [pair, step] : moves_) {
    if (pair.second < 0 || static_cast<size_t>(pair.second) >= program.moves.size())
      throw_flaw(step, "has no group for {}", described(step));
    const Exchange& exchange = exchanges_[static_cast<size_t>(pair.first)];
    const RankMove& move = program.moves[static_cast<size_t>(pair.second)];
    check_group(step, pair.first, program.coordinate, move.group);
    auto members = static_cast<int64_t>(move.group->ranks.size());
    if (move.index < 0 || move.index >= members || move.group->ranks[static_cast<size_t>(move.index)] != program.rank)
      throw_flaw(step, "takes itself for number {} of the group of {}, which another rank is", move.index,
                 described(step));
    int64_t received = received_bytes(exchange, program.coordinate, move.index, members);
    if (received != move.received_bytes) {
      throw_flaw(step, "is to receive {} bytes by {}; by its shapes it receives {}", move.received_bytes,
                 described(step), received);
    }
  }
}

void RankProof::check_group(int step, int exchange, std::span<const int64_t> coordinate,
                            const std::shared_ptr<const MoveGroup>& group) {
  const Exchange& wanted = exchanges_[static_cast<size_t>(exchange)];
  std::vector<int64_t> member(coordinate.begin(), coordinate.end());
  for (size_t axis = 0; axis < member.size(); ++axis) {
    if ((wanted.axes & axis_bit(static_cast<int>(axis))) != 0) member[axis] = 0;
  }
  std::shared_ptr<const MoveGroup>& known = known_groups_[{exchange, plan_.mesh.rank_at(member)}];
  if (known && known == group) return;
  if (!group) throw_flaw(step, "has no group for {}", described(step));
  std::vector<int64_t> ranks;
  std::vector<Region> inputs, outputs;
  all_positions(plan_.mesh, wanted.axes, member, [&](std::span<const int64_t> at) {
    ranks.push_back(plan_.mesh.rank_at(at));
    if (wanted.op == OpKind::kMask) return true;
    inputs.push_back(held_by(wanted.before, at));
    outputs.push_back(held_by(wanted.after, at));
    return true;
  });
  if (group->ranks != ranks)
    throw_flaw(step, "{} is among the wrong ranks: {}", described(step), difference_text(group->ranks, ranks));
  for (const auto& [found, right, when] :
       {std::tuple{&group->inputs, &inputs, "holds"}, std::tuple{&group->outputs, &outputs, "is to hold"}}) {
    if (found->size() != right->size())
      throw_flaw(step, "{} knows the parts of {} ranks, not {}", described(step), found->size(), right->size());
    for (size_t i = 0; i < right->size(); ++i) {
      if ((*found)[i] == (*right)[i]) continue;
      throw_flaw(step, "{} takes it that rank {} {} {}, not {}", described(step), ranks[i], when, text_of((*found)[i]),
                 text_of((*right)[i]));
    }
  }
  // The first that was right is the one that ranks share.
  if (!known) known = group;
}

}  // namespace tpc::verify
