#include "compiler/verify/buffer_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/verify/held_range.h"
#include "compiler/verify/op_meaning.h"
#include "compiler/verify/proved_classes.h"

namespace tpc::verify {
namespace {

constexpr int kUnwritten = -1;

class BufferProof {
 public:
  explicit BufferProof(const Plan& plan)
      : plan_(plan), classes_(proved_classes(plan)), owner_(plan.tensors.size(), kUnwritten) {}

  void run() {
    check_places();
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (persists(plan_.tensors[t].role)) write(static_cast<int>(t), kUnwritten);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      now_ = static_cast<int>(i);
      run_step(plan_.steps[i]);
    }
    now_ = -1;
    check_rest();
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_flaw(now_, format, std::forward<Args>(args)...);
  }

  const PlanTensor& tensor(int index) const { return plan_.tensors[static_cast<size_t>(index)]; }

  /// Elements of the fullest rank's part: that of the first position on every axis, whose blocks are the longest.
  int64_t fullest_elements(int index) {
    auto c = static_cast<size_t>(classes_.tensors[static_cast<size_t>(index)]);
    elements_.resize(classes_.tensor_examples.size(), 0);
    if (elements_[c] == 0) {
      elements_[c] = 1;
      const std::vector<int64_t> first(plan_.mesh.num_axes(), 0);
      for (const DimCuts& dim : dim_cuts(tensor(index), plan_.mesh)) elements_[c] *= held(dim, first).size();
    }
    return elements_[c];
  }

  void check_places() {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const PlanTensor& placed = plan_.tensors[t];
      int64_t needed = fullest_elements(static_cast<int>(t)) * byte_size(placed.type.dtype);
      if (placed.bytes < needed)
        throw_tensor_flaw(static_cast<int>(t), "\"{}\" has a buffer of {} bytes, the fullest rank holds {}",
                          placed.name, placed.bytes, needed);
      if (placed.offset < 0 || placed.bytes > plan_.arena_bytes || placed.offset > plan_.arena_bytes - placed.bytes) {
        throw_tensor_flaw(static_cast<int>(t), "\"{}\" ({} bytes at {}) does not lie in the arena of {} bytes",
                          placed.name, placed.bytes, placed.offset, plan_.arena_bytes);
      }
    }
  }

  void require_intact(int index) const {
    const std::string& name = tensor(index).name;
    int owner = owner_[static_cast<size_t>(index)];
    if (owner == kUnwritten) fail("reads \"{}\" before it is written", name);
    if (owner != index) fail("reads \"{}\", over whose bytes \"{}\" was written", name, tensor(owner).name);
  }

  void run_step(const PlanStep& step) {
    if (step.op == OpKind::kUpdate) return update(step.operands[0], step.operands[1]);
    for (int operand : step.operands) {
      require_intact(operand);
      if (updated_.count(operand) != 0) fail("reads \"{}\" after its update", tensor(operand).name);
    }
    for (size_t r = 0; r < step.results.size(); ++r) {
      for (size_t other = 0; other < r; ++other) {
        if (!overlap(step.results[other], step.results[r])) continue;
        fail("writes \"{}\" and \"{}\" to the same bytes", tensor(step.results[other]).name,
             tensor(step.results[r]).name);
      }
    }
    const std::optional<OpMeaning>& meaning = meaning_of(step);
    bool is_reshape = meaning && meaning->is_reshape;
    for (size_t r = 0; r < step.results.size(); ++r) {
      int result = step.results[r];
      int replaced = replaced_by(step, meaning, r);
      for (int operand : step.operands) {
        if (!overlap(operand, result)) continue;
        bool is_read_once = std::count(step.operands.begin(), step.operands.end(), operand) == 1;
        if (operand == replaced && is_read_once && lies_on(result, operand, is_reshape)) continue;
        fail("writes \"{}\" over \"{}\", which it still reads", tensor(result).name, tensor(operand).name);
      }
      write(result, is_reshape && overlap(replaced, result) ? replaced : kUnwritten);
    }
  }

  /// Worked out once a class of steps.
  const std::optional<OpMeaning>& meaning_of(const PlanStep& step) {
    auto [entry, is_new] = meanings_.try_emplace(classes_.steps[static_cast<size_t>(now_)]);
    if (is_new) entry->second = op_meaning(plan_, step);
    return entry->second;
  }

  /// The operand that result `r` may be written over; kUnwritten: none.
  static int replaced_by(const PlanStep& step, const std::optional<OpMeaning>& meaning, size_t r) {
    // These change values, not where they lie.
    if (step.op == OpKind::kMask || step.op == OpKind::kAllReduce) return step.operands[0];
    if (!meaning || r >= meaning->over.size() || meaning->over[r] >= step.operands.size()) return kUnwritten;
    return step.operands[meaning->over[r]];
  }

  void update(int target, int value) {
    require_intact(value);
    if (tensor(target).offset != tensor(value).offset) {
      require_intact(target);
      write(target, kUnwritten);
    } else if (!lies_on(value, target, /*is_reshape=*/false)) {
      fail("\"{}\" does not fill the place of \"{}\"", tensor(value).name, tensor(target).name);
    }
    updated_[target] = tensor(target).offset == tensor(value).offset ? value : target;
  }

  bool overlap(int a, int b) const {
    return tensor(a).offset < tensor(b).offset + tensor(b).bytes &&
           tensor(b).offset < tensor(a).offset + tensor(a).bytes;
  }

  /// The same bytes on every rank; element for element, unless only the shape changes.
  bool lies_on(int result, int operand, bool is_reshape) {
    const PlanTensor& a = tensor(result);
    const PlanTensor& b = tensor(operand);
    if (a.offset != b.offset || a.type.dtype != b.type.dtype) return false;
    if (is_reshape) return fullest_elements(result) == fullest_elements(operand);
    return dim_cuts(a, plan_.mesh) == dim_cuts(b, plan_.mesh);
  }

  /// What lies there is lost, but for `same`, whose bytes are the new tensor's, too.
  void write(int written, int same) {
    int64_t begin = tensor(written).offset;
    int64_t end = begin + tensor(written).bytes;
    Content content{end, {written}};
    auto at = contents_.upper_bound(begin);
    if (at != contents_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != contents_.end() && at->first < end) {
      for (int other : at->second.tensors) {
        if (now_ < 0)
          throw_tensor_flaw(written, "\"{}\" and \"{}\" persist in the same bytes", tensor(other).name,
                            tensor(written).name);
        bool is_kept = same != kUnwritten && at->first == begin && lies_on(other, written, /*is_reshape=*/true);
        if (is_kept) {
          content.tensors.push_back(other);
        } else {
          owner_[static_cast<size_t>(other)] = written;
        }
      }
      at = contents_.erase(at);
    }
    owner_[static_cast<size_t>(written)] = written;
    contents_[begin] = std::move(content);
  }

  /// What persists is in its place for the next step.
  void check_rest() const {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (!persists(plan_.tensors[t].role)) continue;
      auto updated = updated_.find(static_cast<int>(t));
      int wanted = updated == updated_.end() ? static_cast<int>(t) : updated->second;
      int owner = owner_[static_cast<size_t>(wanted)];
      if (owner == wanted) continue;
      throw_tensor_flaw(static_cast<int>(t), "\"{}\" lies over \"{}\" when the next step begins", tensor(owner).name,
                        plan_.tensors[t].name);
    }
  }

  /// Tensors that are the same bytes, and the end of these.
  struct Content {
    int64_t end = 0;
    std::vector<int> tensors;
  };

  const Plan& plan_;
  PlanClasses classes_;
  std::map<int, std::optional<OpMeaning>> meanings_;  ///< per class of steps
  std::vector<int64_t> elements_;                     ///< per class of tensors, 0: not known yet
  std::vector<int> owner_;                            ///< per tensor: itself, or what was written over it
  std::map<int64_t, Content> contents_;               ///< by offset; they do not overlap
  std::map<int, int> updated_;                        ///< what lies in the place of an updated leaf
  int now_ = -1;
};

}  // namespace

std::optional<Flaw> find_buffer_flaw(const Plan& plan) {
  try {
    BufferProof(plan).run();
  } catch (Flaw& flaw) {
    return std::move(flaw);
  }
  return std::nullopt;
}

}  // namespace tpc::verify
