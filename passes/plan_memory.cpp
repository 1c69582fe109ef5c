#include "passes/plan_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

/// Whether a rank holds the same part of both: parts of a sum are as large as the sum.
bool lie_alike(const TensorSharding& a, const TensorSharding& b) {
  return std::ranges::equal(a.placements, b.placements, [](const Placement& of_a, const Placement& of_b) {
    return of_a.is_shard() || of_b.is_shard() ? of_a == of_b : true;
  });
}

/// Free ranges of the arena's transient part, which grows as needed.
class FreeList {
 public:
  explicit FreeList(int64_t base) : end_(base) {}

  int64_t take(int64_t bytes) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return grow(bytes);
    auto [size, offset] = *fit;
    erase(offset, size);
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      int64_t size = next->second;
      bytes += size;
      erase(next->first, size);
    }
    auto previous = by_offset_.lower_bound(offset);
    if (previous != by_offset_.begin()) {
      --previous;
      if (previous->first + previous->second == offset) {
        int64_t start = previous->first;
        int64_t size = previous->second;
        erase(start, size);
        offset = start;
        bytes += size;
      }
    }
    insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  /// A free range that touches the end is extended rather than left behind.
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(offset, last->second);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void insert(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void erase(int64_t offset, int64_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  int64_t end_;
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
};

class MemoryPlanner {
 public:
  explicit MemoryPlanner(Plan& plan) : plan_(plan), buffer_of_(plan.tensors.size(), -1) {}

  void run() {
    find_last_uses();
    find_update_targets();
    place_persistent();
    assign_buffers();
    place_transient();
  }

 private:
  struct Buffer {
    int64_t bytes = 0;
    int first_step = -1;  ///< -1: persists
    int last_step = -1;
    int64_t offset = -1;
  };

  const PlanTensor& tensor(int index) const { return plan_.tensors[static_cast<size_t>(index)]; }
  int& buffer_of(int index) { return buffer_of_[static_cast<size_t>(index)]; }
  int last_use(int index) const { return last_use_[static_cast<size_t>(index)]; }

  void find_last_uses() {
    last_use_.assign(plan_.tensors.size(), -1);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      for (int operand : plan_.steps[s].operands) last_use_[static_cast<size_t>(operand)] = static_cast<int>(s);
    }
    // Outputs are read after the step.
    for (const auto& [name, index] : plan_.outputs) {
      last_use_[static_cast<size_t>(index)] = static_cast<int>(plan_.steps.size());
    }
  }

  /// For a result that an update writes back: the persistent tensor. Its last read is the last one before the update.
  void find_update_targets() {
    last_read_before_update_.assign(plan_.tensors.size(), -1);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      if (step.op == OpKind::kUpdate) {
        update_target_[step.operands[1]] = step.operands[0];
      } else {
        for (int operand : step.operands) last_read_before_update_[static_cast<size_t>(operand)] = static_cast<int>(s);
      }
    }
  }

  void place_persistent() {
    int64_t offset = 0;
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      PlanTensor& item = plan_.tensors[i];
      if (!persists(item.role)) continue;
      buffer_of_[i] = static_cast<int>(buffers_.size());
      buffers_.push_back({item.bytes, -1, static_cast<int>(plan_.steps.size()), offset});
      offset += aligned(item.bytes);
    }
    plan_.persistent_bytes = offset;
  }

  /// Which results share the buffer of an operand, and how long each buffer lives.
  void assign_buffers() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      int now = static_cast<int>(s);
      for (size_t r = 0; r < step.results.size(); ++r) {
        int result = step.results[r];
        int shared = shared_buffer(step, r, now);
        if (shared < 0) {
          shared = static_cast<int>(buffers_.size());
          buffers_.push_back({tensor(result).bytes, now, now, -1});
        }
        buffer_of(result) = shared;
        Buffer& buffer = buffers_[static_cast<size_t>(shared)];
        buffer.last_step = std::max(buffer.last_step, std::max(now, last_use(result)));
      }
    }
  }

  int shared_buffer(const PlanStep& step, size_t r, int now) {
    int result = step.results[r];
    if (step.op == OpKind::kReshape && !persists(tensor(step.operands[0]).role)) {
      return buffer_of(step.operands[0]);
    }
    const std::vector<int>& inplace = op_def(step.op).inplace;
    if (r >= inplace.size() || inplace[r] < 0 || inplace[r] >= static_cast<int>(step.operands.size())) return -1;
    int operand = step.operands[static_cast<size_t>(inplace[r])];
    bool is_same_part = lie_alike(tensor(operand).sharding, tensor(result).sharding);
    if (tensor(operand).bytes != tensor(result).bytes || !is_same_part) return -1;
    int buffer = buffer_of(operand);
    for (size_t i = 0; i < step.operands.size(); ++i) {
      if (static_cast<int>(i) != inplace[r] && buffer_of(step.operands[i]) == buffer) return -1;
    }
    if (persists(tensor(operand).role)) {
      auto target = update_target_.find(result);
      bool written_back = target != update_target_.end() && target->second == operand;
      bool last_read = last_read_before_update_[static_cast<size_t>(operand)] == now;
      return written_back && last_read ? buffer : -1;
    }
    return buffers_[static_cast<size_t>(buffer)].last_step == now ? buffer : -1;
  }

  void place_transient() {
    std::vector<std::vector<int>> dying(plan_.steps.size() + 1);
    std::vector<std::vector<int>> starting(plan_.steps.size());
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (buffers_[b].first_step < 0) continue;
      starting[static_cast<size_t>(buffers_[b].first_step)].push_back(static_cast<int>(b));
      dying[static_cast<size_t>(buffers_[b].last_step)].push_back(static_cast<int>(b));
    }
    FreeList free(plan_.persistent_bytes);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      for (int b : starting[s]) {
        Buffer& buffer = buffers_[static_cast<size_t>(b)];
        buffer.offset = free.take(aligned(buffer.bytes));
      }
      for (int b : dying[s]) {
        const Buffer& buffer = buffers_[static_cast<size_t>(b)];
        free.give(buffer.offset, aligned(buffer.bytes));
      }
    }
    plan_.arena_bytes = free.end();
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      TPC_CHECK(buffer_of_[i] >= 0, "tensor \"{}\" has no buffer", plan_.tensors[i].name);
      plan_.tensors[i].offset = buffers_[static_cast<size_t>(buffer_of_[i])].offset;
    }
  }

  Plan& plan_;
  std::vector<int> buffer_of_;
  std::vector<int> last_use_;
  std::vector<int> last_read_before_update_;
  std::map<int, int> update_target_;
  std::vector<Buffer> buffers_;
};

}  // namespace

void plan_memory(Plan& plan) { MemoryPlanner(plan).run(); }

}  // namespace tpc
