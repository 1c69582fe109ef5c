// A plan whose buffers are moved about: whatever would be read after something was written over it is refused.
#include "compiler/verify/buffer_proof.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "compiler/verify/op_meaning.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

/// The meaning of memory, element by element: each byte holds what was written there last.
class Bytes {
 public:
  explicit Bytes(const Plan& plan) : plan_(plan), owner_(static_cast<size_t>(plan.arena_bytes / kUnit), -1) {}

  void write(int tensor, int content) {
    for_each(tensor, [&](int& owner) { owner = content; });
  }
  bool holds(int tensor, int content) {
    bool all = true;
    for_each(tensor, [&](int& owner) { all = all && owner == content; });
    return all;
  }

 private:
  static constexpr int64_t kUnit = kBufferAlignment;
  void for_each(int tensor, const std::function<void(int&)>& visit) {
    const PlanTensor& t = plan_.tensors[static_cast<size_t>(tensor)];
    for (int64_t unit = t.offset / kUnit; unit * kUnit < t.offset + t.bytes; ++unit)
      visit(owner_[static_cast<size_t>(unit)]);
  }

  const Plan& plan_;
  std::vector<int> owner_;
};

/// Runs the plan on bytes: a step that reads something else than was made for it, or writes over what it reads itself
/// (left to the ops that can), or a leaf that is lost, is a failure.
bool runs_well(const Plan& plan) {
  Bytes bytes(plan);
  std::vector<int> content(plan.tensors.size(), -1);
  auto make = [&](int tensor, int as) {
    bytes.write(tensor, as);
    content[static_cast<size_t>(tensor)] = as;
  };
  std::set<int> persistent;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (!persists(plan.tensors[t].role)) continue;
    make(static_cast<int>(t), static_cast<int>(t));
    persistent.insert(static_cast<int>(t));
  }
  for (int t : persistent) {
    if (!bytes.holds(t, t)) return false;
  }
  std::map<int, int> rest;
  for (const PlanStep& step : plan.steps) {
    size_t first = step.op == OpKind::kUpdate ? 1 : 0;
    for (size_t k = first; k < step.operands.size(); ++k) {
      int operand = step.operands[k];
      if (!bytes.holds(operand, content[static_cast<size_t>(operand)])) return false;
    }
    if (step.op == OpKind::kUpdate) {
      bool is_in_place = plan.tensors[static_cast<size_t>(step.operands[0])].offset ==
                         plan.tensors[static_cast<size_t>(step.operands[1])].offset;
      if (!is_in_place) make(step.operands[0], step.operands[0]);
      rest[step.operands[0]] = content[static_cast<size_t>(step.operands[is_in_place ? 1 : 0])];
      continue;
    }
    for (int result : step.results) {
      // A reshape's result on its operand is the same content.
      bool is_same = step.op == OpKind::kReshape && plan.tensors[static_cast<size_t>(result)].offset ==
                                                        plan.tensors[static_cast<size_t>(step.operands[0])].offset;
      make(result, is_same ? content[static_cast<size_t>(step.operands[0])] : result);
    }
    for (int result : step.results) {
      if (!bytes.holds(result, content[static_cast<size_t>(result)])) return false;
    }
  }
  for (int t : persistent) {
    auto updated = rest.find(t);
    if (!bytes.holds(t, updated == rest.end() ? t : updated->second)) return false;
  }
  return true;
}

/// Every `stride`-th tensor to every place that another has.
void check_moves(const std::string& model, const testing::MeshCase& mesh, size_t stride) {
  Plan plan = testing::compile_model(model, {{"batch", 4}}, mesh).plan;
  CHECK(!verify::find_buffer_flaw(plan));
  std::set<int64_t> places;
  for (const PlanTensor& tensor : plan.tensors) places.insert(tensor.offset);
  int num_moved = 0;
  int num_refused = 0;
  for (size_t t = 0; t < plan.tensors.size(); t += stride) {
    for (int64_t place : places) {
      Plan moved = plan;
      moved.tensors[t].offset = place;
      if (moved == plan || place + moved.tensors[t].bytes > plan.arena_bytes) continue;
      ++num_moved;
      bool is_refused = verify::find_buffer_flaw(moved).has_value();
      num_refused += is_refused ? 1 : 0;
      if (!runs_well(moved)) CHECK_MESSAGE(is_refused, model << ": " << plan.tensors[t].name << " to " << place);
    }
  }
  MESSAGE(num_refused << " of " << num_moved << " moves of a buffer of " << model << " refused");
  CHECK(num_refused < num_moved);
}

}  // namespace

TEST_CASE("buffers moved onto one another are refused wherever a step would read what is gone") {
  check_moves("mlp", {"", DeviceMesh({{"tp", 2}})}, 1);
  check_moves("tiny_gpt", {"", DeviceMesh({{"tp", 2}}), true}, 37);
  check_moves("llama_tiny", {"", DeviceMesh({{"dp", 2}}), false, 3}, 53);
}

TEST_CASE("a buffer too small is refused, one outside the arena, and one that persists beside another in its place") {
  Plan plan = testing::compile_model("mlp", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  auto message = [](const Plan& wrong) {
    std::optional<verify::Flaw> flaw = verify::find_buffer_flaw(wrong);
    return flaw ? flaw->message : "";
  };
  auto says = [](const std::string& text, const char* words) { return text.find(words) != std::string::npos; };
  int first = -1;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    CAPTURE(plan.tensors[t].name);
    Plan wrong = plan;
    wrong.tensors[t].bytes =
        byte_size(TensorType{plan.tensors[t].type.dtype,
                             fullest_shape(plan.tensors[t].type.shape, plan.tensors[t].sharding, plan.mesh)}) -
        1;
    CHECK(says(message(wrong), "the fullest rank holds"));
    for (int64_t offset : {int64_t{-64}, plan.arena_bytes - plan.tensors[t].bytes + 64}) {
      wrong = plan;
      wrong.tensors[t].offset = offset;
      CHECK(says(message(wrong), "does not lie in the arena"));
    }
    if (!persists(plan.tensors[t].role)) continue;
    if (first >= 0) {
      wrong = plan;
      wrong.tensors[t].offset = plan.tensors[static_cast<size_t>(first)].offset;
      CHECK(says(message(wrong), "persist in the same bytes"));
    }
    first = first < 0 ? static_cast<int>(t) : first;
  }
}

TEST_CASE("a result may lie on the operand that its op replaces, on no other and on no other result") {
  for (const std::string model : {"mlp", "tiny_gpt", "llama_tiny"}) {
    Plan plan = testing::compile_model(model, {{"batch", 4}}, {"", DeviceMesh({{"tp", 2}})}).plan;
    int num_moved = 0;
    for (const PlanStep& step : plan.steps) {
      std::optional<verify::OpMeaning> meaning = verify::op_meaning(plan, step);
      if (!meaning || step.op == OpKind::kReshape) continue;
      for (size_t r = 0; r < step.results.size(); ++r) {
        auto lay_on = [&](int other) {
          Plan moved = plan;
          PlanTensor& result = moved.tensors[static_cast<size_t>(step.results[r])];
          result.offset = plan.tensors[static_cast<size_t>(other)].offset;
          if (result.offset + result.bytes > plan.arena_bytes) return;
          ++num_moved;
          CHECK_MESSAGE(verify::find_buffer_flaw(moved),
                        model << ": " << result.name << " on " << plan.tensors[static_cast<size_t>(other)].name);
        };
        for (size_t k = 0; k < step.operands.size(); ++k) {
          if (r >= meaning->over.size() || meaning->over[r] != k) lay_on(step.operands[k]);
        }
        for (size_t other = 0; other < r; ++other) lay_on(step.results[other]);
      }
    }
    CHECK(num_moved > 5);
  }
}

}  // namespace tpc
