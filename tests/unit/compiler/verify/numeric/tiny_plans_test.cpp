#include "compiler/verify/numeric/tiny_plans.h"

#include <doctest/doctest.h>

#include "compiler/ops/op_def.h"
#include "compiler/plan/plan_classes.h"
#include "compiler/verify/flaw.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

using testing::MeshCase;

Plan one_rank_of(const std::string& model, const std::map<std::string, int64_t>& dims) {
  return testing::compile_model(model, dims, {"", DeviceMesh()}).plan;
}

const PlanTensor& find_tensor(const Plan& plan, const std::string& name) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return plan.tensors[0];
}

/// Every step still makes what its op infers from its operands.
void check_types(const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    CAPTURE(step.layer);
    CAPTURE(op_name(step.op));
    std::vector<TensorType> results;
    std::vector<TensorType> operands = types_of(plan, step.operands);
    CHECK(op_def(step.op).infer_types({step.attributes, operands, {}}) == types_of(plan, step.results));
  }
}

/// Ranks hold parts as even or uneven as before, and none that had something nothing.
void check_parts(const Plan& plan, const Plan& tiny) {
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& before = plan.tensors[t];
    const PlanTensor& after = tiny.tensors[t];
    CAPTURE(before.name);
    CHECK_LE(num_elements(after.type.shape), num_elements(before.type.shape));
    Region first = local_region(before.type.shape, before.sharding, plan.mesh, plan.mesh.coordinate(0));
    Region tiny_first = local_region(after.type.shape, after.sharding, plan.mesh, plan.mesh.coordinate(0));
    for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
      std::vector<int64_t> at = plan.mesh.coordinate(rank);
      Region region = local_region(before.type.shape, before.sharding, plan.mesh, at);
      Region tiny_region = local_region(after.type.shape, after.sharding, plan.mesh, at);
      for (size_t d = 0; d < region.dims.size(); ++d) {
        CHECK_EQ(region.dims[d].size() == 0, tiny_region.dims[d].size() == 0);
        CHECK_EQ(region.dims[d].size() == first.dims[d].size(),
                 tiny_region.dims[d].size() == tiny_first.dims[d].size());
      }
    }
  }
}

void check_model(const std::string& model) {
  for (const MeshCase& mesh : testing::megatron_cases()) {
    if (mesh.sequence_parallel && model == "mlp") continue;
    CAPTURE(mesh.name);
    std::map<std::string, int64_t> dims{{"batch", 12}};
    Plan plan = testing::compile_model(model, dims, mesh).plan;
    verify::TinyPlans tiny = verify::tiny_plans(one_rank_of(model, dims), plan);
    check_types(tiny.one_rank);
    check_types(tiny.plan);
    check_parts(plan, tiny.plan);
    CHECK_LT(verify::numeric_work(tiny.plan) / static_cast<double>(plan.mesh.world_size()), 1e7);
  }
}

}  // namespace

TEST_CASE("tiny plans of a GPT keep its structure") { check_model("tiny_gpt"); }
TEST_CASE("tiny plans of a Llama keep its structure") { check_model("llama_tiny"); }
TEST_CASE("tiny plans of an MLP keep its structure") { check_model("mlp"); }

TEST_CASE("what is divided unevenly stays so, and dimensions are the products of their parts") {
  MeshCase mesh{"", DeviceMesh({{"tp", 3}})};
  Plan plan = testing::compile_model("tiny_gpt", {}, mesh).plan;
  verify::TinyPlans tiny = verify::tiny_plans(one_rank_of("tiny_gpt", {}), plan);
  // 512 features and 8 heads on 3 ranks leave 2.
  const Shape ffn = find_tensor(tiny.plan, "block0.fc1").type.shape;
  CHECK_EQ(ffn.back(), 8);
  const Shape heads = find_tensor(tiny.plan, "block0.attn").type.shape;
  CHECK_EQ(heads[2], 8);
  CHECK_EQ(find_tensor(tiny.one_rank, "block0.attn").type.shape, heads);
}

TEST_CASE("a range that shares no divisor with its dimension keeps both sizes") {
  const std::string text = R"({"format": "tpc-model", "version": 1, "name": "sliced",
    "inputs": {"x": {"shape": [4, 30], "dtype": "float32"}, "y": {"shape": [4, 64], "dtype": "float32"}},
    "layers": [
      {"name": "first", "op": "linear", "input": "x", "out": [31], "init": {"normal": 0.02}},
      {"name": "part", "op": "slice", "input": "first", "dim": 1, "start": 1, "length": 30},
      {"name": "last", "op": "linear", "input": "part", "out": [64], "init": {"normal": 0.02}},
      {"name": "loss", "op": "mean_squared_error", "input": "last", "targets": "y"}],
    "loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1}})";
  Plan plan = testing::compile_text(text, "sliced.json", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan one_rank = testing::compile_text(text, "sliced.json", {}, {"", DeviceMesh()}).plan;
  verify::TinyPlans tiny = verify::tiny_plans(one_rank, plan);
  CHECK_EQ(find_tensor(tiny.plan, "first").type.shape, Shape{2, 31});
  CHECK_EQ(find_tensor(tiny.plan, "part").type.shape, Shape{2, 30});
  CHECK_EQ(find_tensor(tiny.plan, "last").type.shape, Shape{2, 4});
}

TEST_CASE("shapes that do not fit together are a flaw at their step") {
  Plan plan = testing::compile_model("mlp", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Plan one_rank = one_rank_of("mlp", {});
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].op != OpKind::kContract) continue;
    Plan faulty = plan;
    ++faulty.tensors[static_cast<size_t>(plan.steps[i].results[0])].type.shape.back();
    CHECK_THROWS_AS(verify::tiny_plans(one_rank, faulty), verify::Flaw);
  }
}

}  // namespace tpc
