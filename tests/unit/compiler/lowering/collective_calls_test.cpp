// Collectives as calls, run by a tiny library of flat collectives and messages on ordinary memory.
#include "compiler/lowering/collective_calls.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

/// A split of `shape` over the members, as evenly as may be.
std::vector<Region> split(const Shape& shape, size_t dim, int64_t members) {
  std::vector<Region> regions;
  for (int64_t i = 0; i < members; ++i) {
    Region region = whole_region(shape);
    region.dims[dim] = balanced_block(shape[dim], 1, members, i);
    regions.push_back(std::move(region));
  }
  return regions;
}

/// How input and output lie in a member's memory.
enum class Overlap { kNone, kSame, kShifted };

struct Case {
  OpKind op;
  ReduceOp reduce = ReduceOp::kSum;
  Shape shape;
  std::vector<Region> inputs;
  std::vector<Region> outputs;
  Overlap overlap = Overlap::kNone;
};

class Member {
 public:
  Member(const Case& c, int64_t index) {
    CollectiveStep step;
    step.op = c.op;
    step.reduce = c.reduce;
    for (size_t i = 0; i < c.inputs.size(); ++i) step.group.push_back(static_cast<int64_t>(10 * i));
    step.index = index;
    step.input_regions = c.inputs;
    step.output_regions = c.outputs;
    auto at = static_cast<size_t>(index);
    int64_t in = c.inputs[at].num_elements(), out = c.outputs[at].num_elements();
    memory_.resize(static_cast<size_t>(in + out + 1));
    input_ = memory_.data();
    output_ = c.overlap == Overlap::kSame      ? input_
              : c.overlap == Overlap::kShifted ? input_ + std::min<int64_t>(1, in)
                                               : input_ + in;
    step.input = {{DType::kF32, c.shape}, c.inputs[at], input_};
    step.output = {{DType::kF32, c.shape}, c.outputs[at], output_};
    calls_ = collective_calls(step);
    workspace_.assign(static_cast<size_t>(calls_.workspace), -1e30f);
  }

  float* address(const CallBuffer& buffer) {
    float* base = workspace_.data();
    if (buffer.place == CallBuffer::Place::kInput) base = input_;
    if (buffer.place == CallBuffer::Place::kOutput) base = output_;
    return base + buffer.offset;
  }
  float* input() { return input_; }
  float* output() { return output_; }
  int64_t received() const { return calls_.received; }

  /// Does what needs no peer; returns the call that does, or nullptr at the end.
  const CollectiveCall* run_alone() {
    while (next_ < calls_.calls.size()) {
      const CollectiveCall& call = calls_.calls[next_];
      if (call.kind == CollectiveCallKind::kCopy) {
        RegionCopy(call.from_region, call.to_region).run(address(call.from), address(call.to), sizeof(float));
      } else if (call.kind == CollectiveCallKind::kReduce) {
        reduce(call);
      } else {
        return &call;
      }
      ++next_;
    }
    return nullptr;
  }
  void skip() { ++next_; }
  void set_reduce(ReduceOp reduce) { reduce_ = reduce; }

 private:
  void reduce(const CollectiveCall& call) {
    const float* from = address(call.from);
    float* to = address(call.to);
    for (int64_t i = 0; i < call.count; ++i) {
      float sum = from[i];
      for (int64_t p = 1; p < call.num_pieces; ++p) {
        float piece = from[p * call.count + i];
        sum = reduce_ == ReduceOp::kMax ? std::max(sum, piece) : sum + piece;
      }
      to[i] = sum;
    }
  }

  std::vector<float> memory_;
  float* input_ = nullptr;
  float* output_ = nullptr;
  std::vector<float> workspace_;
  CollectiveCalls calls_;
  ReduceOp reduce_ = ReduceOp::kSum;
  size_t next_ = 0;
};

using Flat = std::vector<std::vector<float>>;

Flat flat_of(std::vector<Member>& members, const std::vector<const CollectiveCall*>& calls, int64_t count) {
  Flat flat;
  for (size_t i = 0; i < members.size(); ++i) {
    const float* from = members[i].address(calls[i]->from);
    flat.emplace_back(from, from + count);
  }
  return flat;
}

/// What the library does with a flat collective that all have come to.
void run_flat(std::vector<Member>& members, const std::vector<const CollectiveCall*>& calls, ReduceOp reduce) {
  int64_t count = calls[0]->count;
  auto num_members = static_cast<int64_t>(members.size());
  for (const CollectiveCall* call : calls) {
    REQUIRE(call->kind == calls[0]->kind);
    REQUIRE(call->count == count);
  }
  bool gathers = calls[0]->kind == CollectiveCallKind::kAllGather;
  bool scatters = calls[0]->kind == CollectiveCallKind::kReduceScatter;
  Flat from = flat_of(members, calls, scatters ? count * num_members : count);
  for (size_t i = 0; i < members.size(); ++i) {
    float* to = members[i].address(calls[i]->to);
    for (int64_t j = 0; j < (gathers ? count * num_members : count); ++j) {
      if (gathers) {
        to[j] = from[static_cast<size_t>(j / count)][static_cast<size_t>(j % count)];
        continue;
      }
      auto at = static_cast<size_t>(scatters ? static_cast<int64_t>(i) * count + j : j);
      float sum = from[0][at];
      for (size_t m = 1; m < from.size(); ++m) {
        sum = reduce == ReduceOp::kMax ? std::max(sum, from[m][at]) : sum + from[m][at];
      }
      to[j] = sum;
    }
    members[i].skip();
  }
}

/// Messages from group start to group end: all are sent, then all are received.
void run_messages(std::vector<Member>& members, std::vector<int64_t>& received) {
  std::map<std::pair<size_t, size_t>, std::deque<std::vector<float>>> messages;
  std::vector<std::vector<const CollectiveCall*>> receives(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    members[i].skip();
    while (true) {
      const CollectiveCall* call = members[i].run_alone();
      REQUIRE(call != nullptr);
      members[i].skip();
      if (call->kind == CollectiveCallKind::kGroupEnd) break;
      if (call->kind == CollectiveCallKind::kSend) {
        const float* from = members[i].address(call->from);
        messages[{i, static_cast<size_t>(call->peer)}].emplace_back(from, from + call->count);
      } else {
        REQUIRE(call->kind == CollectiveCallKind::kReceive);
        receives[i].push_back(call);
      }
    }
  }
  for (size_t i = 0; i < members.size(); ++i) {
    for (const CollectiveCall* call : receives[i]) {
      auto& queue = messages[{static_cast<size_t>(call->peer), i}];
      REQUIRE(!queue.empty());
      REQUIRE(static_cast<int64_t>(queue.front().size()) == call->count);
      std::copy(queue.front().begin(), queue.front().end(), members[i].address(call->to));
      queue.pop_front();
      received[i] += call->count;
    }
  }
  for (const auto& [pair, queue] : messages) REQUIRE(queue.empty());
}

float value_of(size_t member, int64_t element) {
  return static_cast<float>((static_cast<int64_t>(member) * 131 + element * 7) % 1009);
}

void check(const Case& c) {
  auto size = c.inputs.size();
  std::vector<Member> members;
  members.reserve(size);
  bool is_reduction = c.op == OpKind::kAllReduce || c.op == OpKind::kReduceScatter;
  for (size_t i = 0; i < size; ++i) {
    members.emplace_back(c, static_cast<int64_t>(i));
    members.back().set_reduce(c.reduce);
    // Element by global index; parts of a sum differ from member to member.
    RegionCopy(whole_region(c.shape), c.inputs[i]).for_each_run([&](int64_t global, int64_t local, int64_t length) {
      for (int64_t j = 0; j < length; ++j) {
        members[i].input()[local + j] = value_of(is_reduction ? i : 0, global + j);
      }
    });
  }
  std::vector<int64_t> received(size);
  bool is_flat = false;
  while (true) {
    std::vector<const CollectiveCall*> calls;
    for (Member& member : members) calls.push_back(member.run_alone());
    if (std::ranges::all_of(calls, [](const auto* call) { return call == nullptr; })) break;
    // A member may have nobody to exchange with.
    bool is_group = std::ranges::any_of(
        calls, [](const auto* call) { return call != nullptr && call->kind == CollectiveCallKind::kGroupStart; });
    for (const auto* call : calls) REQUIRE(call != nullptr);
    if (is_group) {
      run_messages(members, received);
    } else {
      is_flat = true;
      run_flat(members, calls, c.reduce);
    }
  }
  for (size_t i = 0; i < size; ++i) {
    CAPTURE(i);
    RegionCopy(whole_region(c.shape), c.outputs[i]).for_each_run([&](int64_t global, int64_t local, int64_t length) {
      for (int64_t j = 0; j < length; ++j) {
        float expected = value_of(0, global + j);
        for (size_t m = 1; is_reduction && m < size; ++m) {
          float part = value_of(m, global + j);
          expected = c.reduce == ReduceOp::kMax ? std::max(expected, part) : expected + part;
        }
        REQUIRE(members[i].output()[local + j] == expected);
      }
    });
    if (!is_flat) CHECK(members[i].received() == received[i]);
  }
}

Case random_case(std::mt19937& random) {
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  int64_t members = draw(2, 5);
  Shape shape;
  for (int64_t d = draw(1, 4); d > 0; --d) shape.push_back(draw(1, 7));
  auto dim = static_cast<size_t>(draw(0, static_cast<int64_t>(shape.size()) - 1));
  auto other = static_cast<size_t>(draw(0, static_cast<int64_t>(shape.size()) - 1));
  // Every member holds something; every second case is even.
  for (size_t d : {dim, other}) shape[d] = draw(0, 1) == 0 ? members * draw(1, 3) : members + draw(0, 6);
  constexpr OpKind kOps[] = {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather, OpKind::kAllToAll};
  Case c{kOps[draw(0, 3)], draw(0, 1) == 0 ? ReduceOp::kSum : ReduceOp::kMax, shape, {}, {}, Overlap::kNone};
  std::vector<Region> whole(static_cast<size_t>(members), whole_region(shape));
  bool is_whole_before = c.op == OpKind::kAllReduce || c.op == OpKind::kReduceScatter;
  bool is_whole_after = c.op == OpKind::kAllReduce || c.op == OpKind::kAllGather;
  c.inputs = is_whole_before ? whole : split(shape, dim, members);
  c.outputs = is_whole_after ? whole : split(shape, is_whole_before ? dim : other, members);
  c.overlap = static_cast<Overlap>(draw(0, 2));
  return c;
}

TEST_CASE("calls of a flat library and messages make every collective, however its parts lie") {
  std::mt19937 random(17);
  for (int i = 0; i < 4000; ++i) {
    Case c = random_case(random);
    CAPTURE(op_name(c.op));
    CAPTURE(to_string(c.shape));
    CAPTURE(static_cast<int>(c.overlap));
    CAPTURE(i);
    check(c);
  }
}

TEST_CASE("equal pieces that lie one after the other are one call") {
  Shape shape = {8, 3};
  std::vector<Region> parts = split(shape, 0, 4), whole(4, whole_region(shape));
  auto kinds = [&](OpKind op, const std::vector<Region>& from, const std::vector<Region>& to) {
    float memory[64] = {};
    CollectiveStep step;
    step.op = op;
    step.group = {0, 1, 2, 3};
    step.index = 1;
    step.input_regions = from;
    step.output_regions = to;
    step.input = {{DType::kF32, shape}, from[1], memory};
    step.output = {{DType::kF32, shape}, to[1], memory + 32};
    std::vector<CollectiveCallKind> found;
    for (const CollectiveCall& call : collective_calls(step).calls) found.push_back(call.kind);
    return found;
  };
  CHECK(kinds(OpKind::kAllGather, parts, whole) == std::vector{CollectiveCallKind::kAllGather});
  CHECK(kinds(OpKind::kReduceScatter, whole, parts) == std::vector{CollectiveCallKind::kReduceScatter});
  CHECK(kinds(OpKind::kAllReduce, whole, whole) == std::vector{CollectiveCallKind::kAllReduce});
}

}  // namespace
}  // namespace tpc
