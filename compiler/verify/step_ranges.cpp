#include "compiler/verify/step_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tpc::verify {
namespace {

std::string text_of(const Interval& range) { return fmt::format("[{}, {})", range.begin, range.end); }

/// Union of the ranges that the ranks along `axes` hold, the other positions as in `at`; absent when it has gaps, or,
/// with `disjoint`, overlaps.
std::optional<Interval> joined(const DimCuts& dim, AxisSet axes, const DeviceMesh& mesh, std::span<const int64_t> at,
                               bool disjoint) {
  std::vector<int64_t> member(at.begin(), at.end());
  std::vector<Interval> parts;
  all_positions(mesh, axes & axes_of(dim), member, [&](std::span<const int64_t> position) {
    parts.push_back(held(dim, position));
    return true;
  });
  std::sort(parts.begin(), parts.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Interval all = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].begin > all.end || (disjoint && parts[i].begin != all.end)) return std::nullopt;
    all.end = std::max(all.end, parts[i].end);
  }
  return all;
}

/// A tensor's dimension with the letter that names it.
struct Occurrence {
  const PlanTensor* tensor = nullptr;
  size_t dim = 0;
  DimCuts cuts;
  bool is_result = false;
};

class OpRanges {
 public:
  OpRanges(const Plan& plan, const PlanStep& step, const OpMeaning& meaning)
      : plan_(plan), step_(step), meaning_(meaning), coordinate_(plan.mesh.num_axes(), 0) {}

  StepRanges run() {
    if (meaning_.is_reshape) {
      check_reshape();
    } else {
      gather_letters();
      check_letters();
      if (ranges_.flaw.empty() && meaning_.groups) check_groups(*meaning_.groups);
      if (ranges_.flaw.empty()) find_sums();
    }
    ranges_.summed.resize(step_.results.size(), 0);
    return std::move(ranges_);
  }

 private:
  const PlanTensor& tensor(int index) const { return plan_.tensors[static_cast<size_t>(index)]; }

  void gather_letters() {
    auto gather = [&](const std::vector<int>& tensors, const std::vector<std::string>& terms, bool is_result) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        const PlanTensor& found = tensor(tensors[i]);
        if (i >= terms.size() || terms[i].size() != found.type.shape.size()) {
          ranges_.flaw =
              fmt::format("\"{}\" has {} dimensions, which the op cannot have", found.name, found.type.shape.size());
          return;
        }
        std::vector<DimCuts> cuts = dim_cuts(found, plan_.mesh);
        for (size_t d = 0; d < cuts.size(); ++d)
          letters_[terms[i][d]].push_back({&found, d, std::move(cuts[d]), is_result});
      }
    };
    gather(step_.operands, meaning_.operands, false);
    if (ranges_.flaw.empty()) gather(step_.results, meaning_.results, true);
  }

  int64_t rank() const { return plan_.mesh.rank_at(coordinate_); }

  void check_letters() {
    for (const auto& [letter, occurrences] : letters_) {
      const Occurrence& first = occurrences[0];
      bool is_whole = meaning_.whole.find(letter) != std::string::npos;
      for (const Occurrence& other : occurrences) {
        if (is_whole && !other.cuts.cuts.empty()) {
          all_positions(plan_.mesh, axes_of(other.cuts), coordinate_,
                        [&](std::span<const int64_t> at) { return held(other.cuts, at).size() == other.cuts.size; });
          ranges_.flaw =
              fmt::format("rank {} has {} of dimension {} of \"{}\", and needs all {}", rank(),
                          text_of(held(other.cuts, coordinate_)), other.dim, other.tensor->name, other.cuts.size);
          return;
        }
        if (same_ranges(first.cuts, other.cuts, 1, plan_.mesh, coordinate_)) continue;
        ranges_.flaw = fmt::format(
            "rank {} has {} of dimension {} of \"{}\" and {} of dimension {} of \"{}\", and {} both", rank(),
            text_of(held(first.cuts, coordinate_)), first.dim, first.tensor->name,
            text_of(held(other.cuts, coordinate_)), other.dim, other.tensor->name, "the formula needs one range of");
        return;
      }
    }
  }

  /// A rank's query heads must be those of its key and value heads.
  void check_groups(const OpMeaning::Groups& groups) {
    const DimCuts& heads = letters_[groups.heads][0].cuts;
    const DimCuts& kv = letters_[groups.kv][0].cuts;
    bool fits = all_positions(plan_.mesh, axes_of(heads) | axes_of(kv), coordinate_, [&](std::span<const int64_t> at) {
      Interval of_heads = held(heads, at);
      Interval of_kv = held(kv, at);
      return of_kv.begin * groups.group <= of_heads.begin && of_heads.end <= of_kv.end * groups.group;
    });
    if (fits) return;
    ranges_.flaw = fmt::format("rank {} has query heads {} and key and value heads {}, of which each serves {}", rank(),
                               text_of(held(heads, coordinate_)), text_of(held(kv, coordinate_)), groups.group);
  }

  void find_sums() {
    for (const std::string& result : meaning_.results) {
      AxisSet summed = 0;
      for (const auto& [letter, occurrences] : letters_) {
        if (result.find(letter) != std::string::npos || occurrences[0].cuts.cuts.empty()) continue;
        AxisSet axes = axes_of(occurrences[0].cuts);
        if (meaning_.groups && letter == meaning_.groups->kv) continue;  // the query heads tell
        if (meaning_.groups && letter == meaning_.groups->heads &&
            result.find(meaning_.groups->kv) != std::string::npos) {
          axes = shared_heads(*meaning_.groups);
        }
        summed |= axes;
      }
      ranges_.summed.push_back(summed);
    }
  }

  /// Axes that divide the query heads of key and value heads which all their ranks hold.
  AxisSet shared_heads(const OpMeaning::Groups& groups) {
    const DimCuts& heads = letters_[groups.heads][0].cuts;
    const DimCuts& kv = letters_[groups.kv][0].cuts;
    AxisSet within = axes_of(heads) & ~axes_of(kv);
    // They must partition the heads of each rank's group.
    all_positions(plan_.mesh, axes_of(kv), coordinate_, [&](std::span<const int64_t> at) {
      Interval of_kv = held(kv, at);
      std::optional<Interval> all = joined(heads, within, plan_.mesh, at, /*disjoint=*/true);
      bool fits = all && all->begin == of_kv.begin * groups.group && all->end == of_kv.end * groups.group;
      if (!fits) {
        ranges_.flaw = fmt::format(
            "the ranks that share key and value heads {} with rank {} do not have each of their query heads once",
            text_of(of_kv), rank());
      }
      return fits;
    });
    return within;
  }

  /// The run of elements that a rank has of dimensions [begin, end); absent: not one run.
  static std::optional<Interval> run_of(const std::vector<DimCuts>& dims, size_t begin, size_t end,
                                        std::span<const int64_t> at) {
    Interval run{0, 1};
    bool is_partial = false;
    for (size_t d = begin; d < end; ++d) {
      Interval range = held(dims[d], at);
      bool is_whole = range.size() == dims[d].size;
      if (is_partial && !is_whole) return std::nullopt;
      bool is_one = run.size() == 1;
      if (!is_whole && !is_one) return std::nullopt;
      run = is_one ? Interval{run.begin * dims[d].size + range.begin, run.begin * dims[d].size + range.end}
                   : Interval{run.begin * dims[d].size, run.end * dims[d].size};
      is_partial = is_partial || (!is_whole && range.size() != 1);
    }
    return run;
  }

  /// The shortest runs of dimensions with as many elements on both sides must be held alike.
  void check_reshape() {
    const PlanTensor& in = tensor(step_.operands[0]);
    const PlanTensor& out = tensor(step_.results[0]);
    std::vector<DimCuts> from = dim_cuts(in, plan_.mesh);
    std::vector<DimCuts> to = dim_cuts(out, plan_.mesh);
    size_t f = 0;
    size_t t = 0;
    while (f < from.size() || t < to.size()) {
      size_t f_end = f;
      size_t t_end = t;
      int64_t in_elements = f_end < from.size() ? from[f_end++].size : 1;
      int64_t out_elements = t_end < to.size() ? to[t_end++].size : 1;
      while (in_elements != out_elements && (f_end < from.size() || t_end < to.size())) {
        bool takes_in = in_elements < out_elements ? f_end < from.size() : t_end >= to.size();
        (takes_in ? in_elements : out_elements) *= takes_in ? from[f_end++].size : to[t_end++].size;
      }
      AxisSet axes = 0;
      for (size_t d = f; d < f_end; ++d) axes |= axes_of(from[d]);
      for (size_t d = t; d < t_end; ++d) axes |= axes_of(to[d]);
      bool is_same = all_positions(plan_.mesh, axes, coordinate_, [&](std::span<const int64_t> at) {
        std::optional<Interval> before = run_of(from, f, f_end, at);
        std::optional<Interval> after = run_of(to, t, t_end, at);
        return before && after && *before == *after;
      });
      if (!is_same) {
        ranges_.flaw = fmt::format("rank {} has other elements of \"{}\" than of \"{}\", which are the same in order",
                                   rank(), in.name, out.name);
        return;
      }
      f = f_end;
      t = t_end;
    }
  }

  const Plan& plan_;
  const PlanStep& step_;
  const OpMeaning& meaning_;
  std::map<char, std::vector<Occurrence>> letters_;
  std::vector<int64_t> coordinate_;
  StepRanges ranges_;
};

}  // namespace

StepRanges op_ranges(const Plan& plan, const PlanStep& step, const OpMeaning& meaning) {
  return OpRanges(plan, step, meaning).run();
}

StepRanges move_ranges(const Plan& plan, const PlanStep& step, AxisSet axes) {
  const PlanTensor& in = plan.tensors[static_cast<size_t>(step.operands[0])];
  const PlanTensor& out = plan.tensors[static_cast<size_t>(step.results[0])];
  std::vector<DimCuts> from = dim_cuts(in, plan.mesh);
  std::vector<DimCuts> to = dim_cuts(out, plan.mesh);
  std::vector<int64_t> coordinate(plan.mesh.num_axes(), 0);
  StepRanges ranges;
  if (from.size() != to.size()) {
    ranges.flaw = fmt::format("\"{}\" has {} dimensions, \"{}\" has {}", in.name, from.size(), out.name, to.size());
    return ranges;
  }
  AxisSet cut = 0;
  for (const DimCuts& dim : from) cut |= axes_of(dim);
  if (step.op == OpKind::kZeroPad && (axes & ~cut) != 0) {
    ranges.flaw = fmt::format(
        "\"{}\" is not divided over all the axes of its group: its zeros would leave parts in twice", in.name);
    return ranges;
  }
  bool is_same_range = step.op == OpKind::kAllReduce || step.op == OpKind::kReduceScatter || step.op == OpKind::kMask;
  if (is_same_range && (axes & cut) != 0) {
    ranges.flaw = fmt::format("the ranks of its group have other ranges of \"{}\" each", in.name);
    return ranges;
  }
  auto contains = [](const Interval& outer, const Interval& inner) {
    return outer.begin <= inner.begin && inner.end <= outer.end;
  };
  for (size_t d = 0; d < from.size() && ranges.flaw.empty(); ++d) {
    if (from[d] == to[d] && (axes & axes_of(from[d])) == 0) continue;
    std::string wrong;
    bool fits =
        all_positions(plan.mesh, axes_of(from[d]) | axes_of(to[d]), coordinate, [&](std::span<const int64_t> at) {
          Interval before = held(from[d], at);
          Interval after = held(to[d], at);
          switch (step.op) {
            case OpKind::kAllGather:
            case OpKind::kAllToAll: {
              std::optional<Interval> sent = joined(from[d], axes, plan.mesh, at, /*disjoint=*/false);
              wrong = "its group does not hold together what it is to receive";
              return sent && contains(*sent, after);
            }
            case OpKind::kReduceScatter:
            case OpKind::kLocalSlice:
              wrong = "it cannot take that from what it holds";
              return contains(before, after);
            case OpKind::kZeroPad: {
              std::optional<Interval> padded = joined(from[d], axes, plan.mesh, at, /*disjoint=*/true);
              wrong = "its group's parts do not make up the whole";
              return padded && *padded == after;
            }
            default:
              wrong = "the move changes no ranges";
              return before == after;
          }
        });
    if (fits) continue;
    ranges.flaw = fmt::format("rank {} has {} of dimension {} of \"{}\" and is to have {} of it after: {}",
                              plan.mesh.rank_at(coordinate), text_of(held(from[d], coordinate)), d, in.name,
                              text_of(held(to[d], coordinate)), wrong);
  }
  return ranges;
}

}  // namespace tpc::verify
