#include "compiler/plan/check_buffers.h"

#include <algorithm>
#include <map>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

size_t position(int index) { return static_cast<size_t>(index); }

class BufferSweep {
 public:
  BufferSweep(const Plan& plan, PlanIssues& issues) : plan_(plan), issues_(issues), ranges_(live_ranges(plan)) {
    content_of_.assign(plan.tensors.size(), -1);
  }

  void run() {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (persists(plan_.tensors[i].role)) write(static_cast<int>(i), -1);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanStep& step = plan_.steps[i];
      int now = static_cast<int>(i);
      for (int result : step.results) write(result, now);
      for (int operand : step.operands) release(operand, now);
      for (int result : step.results) release(result, now);
    }
  }

 private:
  /// Bytes in use. Several tensors share them when they are one tensor in several shapes.
  struct Content {
    int64_t begin = 0;
    int64_t end = 0;
    int last_use = -1;
    int tensor = -1;  ///< the first that was written here, for messages
  };

  void write(int tensor, int step) {
    const PlanTensor& written = plan_.tensors[position(tensor)];
    int64_t begin = written.offset;
    int64_t end = begin + written.bytes;
    int shared = -1;
    auto next = in_use_.upper_bound(begin);
    if (next != in_use_.begin() && contents_[position(std::prev(next)->second)].end > begin) --next;
    while (next != in_use_.end() && next->first < end) {
      int found = next->second;
      if (is_reshape_of(found, tensor, step)) {
        shared = found;
        ++next;
      } else {
        if (!works_in_place_on(found, tensor, step)) conflict(found, tensor, step);
        next = in_use_.erase(next);
      }
    }
    int last_use = ranges_[position(tensor)].end;
    if (shared >= 0) {
      Content& content = contents_[position(shared)];
      content.end = std::max(content.end, end);
      content.last_use = std::max(content.last_use, last_use);
      content_of_[position(tensor)] = shared;
      return;
    }
    content_of_[position(tensor)] = static_cast<int>(contents_.size());
    in_use_[begin] = static_cast<int>(contents_.size());
    contents_.push_back({begin, end, last_use, tensor});
  }

  void release(int tensor, int step) {
    int held = content_of_[position(tensor)];
    const Content& content = contents_[position(held)];
    auto found = in_use_.find(content.begin);
    if (content.last_use <= step && found != in_use_.end() && found->second == held) in_use_.erase(found);
  }

  bool is_reshape_of(int content, int tensor, int step) const {
    if (step < 0 || plan_.steps[position(step)].op != OpKind::kReshape) return false;
    int operand = plan_.steps[position(step)].operands[0];
    return content_of_[position(operand)] == content && lies_on(tensor, operand);
  }

  bool works_in_place_on(int content, int tensor, int step) const {
    if (step < 0 || contents_[position(content)].last_use > step) return false;
    const PlanStep& here = plan_.steps[position(step)];
    auto result = std::find(here.results.begin(), here.results.end(), tensor) - here.results.begin();
    const std::vector<int>& inplace = op_def(here.op).inplace;
    if (result >= static_cast<std::ptrdiff_t>(inplace.size()) || inplace[static_cast<size_t>(result)] < 0) return false;
    size_t replaced = static_cast<size_t>(inplace[static_cast<size_t>(result)]);
    for (size_t i = 0; i < here.operands.size(); ++i) {
      bool reads_it = content_of_[position(here.operands[i])] == content;
      if (reads_it != (i == replaced)) return false;
    }
    return lies_on(tensor, here.operands[replaced]);
  }

  bool lies_on(int tensor, int operand) const {
    const PlanTensor& a = plan_.tensors[position(tensor)];
    const PlanTensor& b = plan_.tensors[position(operand)];
    auto elements = [&](const PlanTensor& t) {
      return num_elements(fullest_shape(t.type.shape, t.sharding, plan_.mesh));
    };
    return a.offset == b.offset && a.type.dtype == b.type.dtype && elements(a) == elements(b);
  }

  void conflict(int content, int tensor, int step) {
    const Content& held = contents_[position(content)];
    const PlanTensor& written = plan_.tensors[position(tensor)];
    const PlanTensor& lost = plan_.tensors[position(held.tensor)];
    std::string writer = step < 0 ? "before the first step" : fmt::format("by step {}", step);
    std::string reader = held.last_use >= static_cast<int>(plan_.steps.size())
                             ? std::string("which must last to the end")
                             : fmt::format("which step {} still reads", held.last_use);
    if (step >= 0 && held.last_use == step)
      reader = "which the same step reads, and its op does not work in place on it";
    issues_.tensor(tensor, "/offset",
                   fmt::format("\"{}\", written {} to bytes {} to {}, overwrites \"{}\" (bytes {} to {}), {}",
                               written.name, writer, written.offset, written.offset + written.bytes, lost.name,
                               lost.offset, lost.offset + lost.bytes, reader));
  }

  const Plan& plan_;
  PlanIssues& issues_;
  std::vector<LiveRange> ranges_;
  std::vector<Content> contents_;
  /// Of every tensor, -1 before it is written.
  std::vector<int> content_of_;
  /// Contents in use by offset; they do not overlap.
  std::map<int64_t, int> in_use_;
};

}  // namespace

std::vector<LiveRange> live_ranges(const Plan& plan) {
  std::vector<LiveRange> ranges(plan.tensors.size());
  int end = static_cast<int>(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    int now = static_cast<int>(i);
    for (int result : step.results) ranges[position(result)] = {now, now};
    // An update names its target but does not read it.
    size_t first = step.op == OpKind::kUpdate ? 1 : 0;
    for (size_t k = first; k < step.operands.size(); ++k) ranges[position(step.operands[k])].end = now;
  }
  std::vector<bool> is_replaced(plan.tensors.size(), false);
  for (const PlanStep& step : plan.steps) {
    if (step.op != OpKind::kUpdate) continue;
    const PlanTensor& target = plan.tensors[position(step.operands[0])];
    const PlanTensor& value = plan.tensors[position(step.operands[1])];
    if (target.offset != value.offset) continue;
    is_replaced[position(step.operands[0])] = true;
    ranges[position(step.operands[1])].end = end;
  }
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (persists(plan.tensors[i].role) && !is_replaced[i]) ranges[i].end = end;
  }
  for (const auto& [name, tensor] : plan.outputs) ranges[position(tensor)].end = end;
  return ranges;
}

void check_buffers(const Plan& plan, PlanIssues& issues) { BufferSweep(plan, issues).run(); }

}  // namespace tpc
