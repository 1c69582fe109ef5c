#include "compiler/verify/numeric/numeric_proof.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/support/program.h"

namespace tpc {
namespace {

using testing::MeshCase;

/// On every mesh the plan leaves the numbers of one rank.
void check_model(const std::string& model) {
  const std::map<std::string, int64_t> dims{{"batch", 12}};
  Plan one_rank = testing::compile_model(model, dims, {"", DeviceMesh()}).plan;
  for (const MeshCase& mesh : testing::megatron_cases()) {
    if (mesh.sequence_parallel && model == "mlp") continue;
    CAPTURE(mesh.name);
    verify::NumericCount count;
    std::optional<verify::Flaw> flaw =
        verify::numeric_flaw(one_rank, testing::compile_model(model, dims, mesh).plan, &count);
    CHECK_MESSAGE(!flaw, flaw->step << ": " << flaw->message);
    CHECK_GT(count.numbers, 0);
  }
}

size_t step_with(const Plan& plan, OpKind op, const std::string& layer) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op == op && plan.steps[i].layer == layer) return i;
  }
  FAIL("no " << op_name(op) << " in " << layer);
  return 0;
}

}  // namespace

TEST_CASE("plans of a GPT by rules leave the numbers of one rank") { check_model("tiny_gpt"); }
TEST_CASE("plans of the tutorial's GPT by rules leave the numbers of one rank") { check_model("small_gpt"); }
TEST_CASE("plans of a Llama by rules leave the numbers of one rank") { check_model("llama_tiny"); }
TEST_CASE("plans of an MLP by rules leave the numbers of one rank") { check_model("mlp"); }

TEST_CASE("the first tensor that differs is told, with its rank, index and both numbers") {
  Plan plan = testing::compile_model("tiny_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan one_rank = testing::compile_model("tiny_gpt", {}, {"", DeviceMesh()}).plan;
  Plan faulty = plan;
  size_t wrong = step_with(plan, OpKind::kAttention, "block1.attn");
  faulty.steps[wrong].attributes.set("causal", false);
  std::optional<verify::Flaw> flaw = verify::numeric_flaw(one_rank, faulty);
  REQUIRE(flaw.has_value());
  CHECK_EQ(flaw->step, static_cast<int>(wrong));
  CHECK(flaw->message.find("\"block1.attn\" is ") == 0);
  CHECK(flaw->message.find(" on rank 0 at [0, 0, 0, 0], the model's is ") != std::string::npos);
  CHECK(flaw->message.find("; output \"loss\" is ") != std::string::npos);
}

TEST_CASE("parts of a sum are told by their sum") {
  Plan plan = testing::compile_model("small_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan one_rank = testing::compile_model("small_gpt", {}, {"", DeviceMesh()}).plan;
  Plan faulty = plan;
  // The other product of the row-parallel projection: its weight's rows are another layer's.
  size_t wrong = step_with(plan, OpKind::kContract, "block0.proj");
  faulty.steps[wrong].operands[1] = plan.steps[step_with(plan, OpKind::kContract, "block1.proj")].operands[1];
  std::optional<verify::Flaw> flaw = verify::numeric_flaw(one_rank, faulty);
  REQUIRE(flaw.has_value());
  CHECK_EQ(flaw->step, static_cast<int>(wrong));
  CHECK(flaw->message.find(", the sum over ranks 0, 1 at [0, 0, 0]") != std::string::npos);
}

TEST_CASE("a buffer that is read after something else was written there is a flaw") {
  Plan plan = testing::compile_model("mlp", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan one_rank = testing::compile_model("mlp", {}, {"", DeviceMesh()}).plan;
  int num_faults = 0;
  for (size_t reader = 0; reader < plan.steps.size(); ++reader) {
    for (size_t between = 1; between < reader; ++between) {
      for (int read : plan.steps[reader].operands) {
        const std::vector<int>& made = plan.steps[between - 1].results;
        // Another shape of it may lie there.
        if (plan.steps[between].op == OpKind::kReshape || plan.steps[between].results.empty()) continue;
        if (std::find(made.begin(), made.end(), read) == made.end()) continue;
        int written = plan.steps[between].results[0];
        Plan faulty = plan;
        faulty.tensors[static_cast<size_t>(written)].offset = plan.tensors[static_cast<size_t>(read)].offset;
        ++num_faults;
        std::optional<verify::Flaw> flaw = verify::numeric_flaw(one_rank, faulty);
        REQUIRE(flaw.has_value());
        CHECK(flaw->message.find("over which something else was written") != std::string::npos);
      }
    }
  }
  CHECK_GT(num_faults, 5);
}

TEST_CASE("a plan on too many ranks to be executed is refused with both numbers") {
  std::map<std::string, int64_t> dims{{"batch", 128}, {"heads", 128}, {"seq", 128}, {"vocab", 300}};
  Plan plan = testing::compile_model("tiny_gpt", dims, {"", DeviceMesh({{"dp", 128}, {"tp", 128}}), true}).plan;
  Plan one_rank = testing::compile_model("tiny_gpt", dims, {"", DeviceMesh()}).plan;
  try {
    verify::numeric_flaw(one_rank, plan);
    FAIL("executed");
  } catch (const verify::TooMuchWork& too_much) {
    CHECK(too_much.message.find("on its 16384 ranks takes about ") != std::string::npos);
  }
}

}  // namespace tpc
