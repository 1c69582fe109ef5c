// Gradient norms that counted replicas several times, or clipped nothing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/op_def.h"
#include "compiler/plan/report.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"
#include "tests/support/simulated_ranks.h"

namespace tpc::testing {
namespace {

/// Norms and shared key and value heads: replicas of both kinds.
FaultModel clipped(const std::string& norm) {
  return with(shipped("llama_tiny", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}, {"kv_heads", 2}}),
              R"("weight_decay": 0.01})", R"("weight_decay": 0.01, "clip_norm": )" + norm + "}");
}

double reference_norm(const FaultModel& model, const MeshCase& mesh) {
  Graph graph = compile_text(model.text, "model.json", model.dims, mesh).graph;
  ReferenceExecutor executor(graph);
  executor.set_parameters(3);
  executor.set_leaf("tokens", random_integer_tensor({DType::kI32, {4, 8}}, 1, "tokens", 0, 19));
  executor.set_leaf("targets", random_integer_tensor({DType::kI32, {4, 8}}, 1, "targets", 0, 19));
  executor.run_step({1, 0});
  return executor.output("grad_norm").data[0];
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace

TEST_CASE("B024: the gradient norm counts every element once, for any tp") {
  FaultModel model = clipped("0.01");
  double wanted = reference_norm(model, on("tp=1"));
  CHECK(wanted > 0.01);
  for (const MeshCase& mesh :
       {on("tp=2"), on("tp=4"), on("tp=8"), on("tp=2", true), on("dp=2,tp=2", false, 2), searched_on("tp=4")}) {
    CAPTURE(mesh.name);
    CHECK(std::abs(reference_norm(model, mesh) - wanted) < 1e-12 * wanted);
    CHECK(difference_from_one_rank(model, mesh, 3) == "");
  }
  // A replicated gradient's part that is not left to one rank would count tp times.
  Plan plan = plan_of(model, on("tp=4"));
  std::vector<size_t> masks = find_steps(plan, [](const PlanStep& step) { return step.op == OpKind::kMask; });
  CHECK(masks.size() == 9);  // five norms, and K and V of two blocks
  for (size_t mask : masks) {
    Plan faulty = without_move(plan, mask);
    CHECK(refusal(model, faulty) != "");
    CHECK(proof_flaw(model, faulty) != "");
    CHECK(numeric_difference(model, faulty) != "");
  }
}

TEST_CASE("B026: the norm of a sum is not the sum of norms: what is partial is reduced first") {
  // The sum of squares allows a partial operand nowhere.
  const Attributes none;
  const std::vector<TensorType> pair{TensorType{DType::kF32, Shape{2}}};
  TypedOp squares = typed_op(op_def(OpKind::kSumSquares), none, pair);
  DeviceMesh mesh({{"tp", 2}});
  ShardingRule rule = squares.op.sharding_rule(squares.query());
  TensorSharding partial{{Placement::partial()}}, whole{{Placement::replicate()}};
  const std::vector<Shape> operand_shapes{pair[0].shape}, result_shapes{squares.results[0].shape};
  for (const TensorSharding& result : {partial, whole}) {
    NodeSharding sharding;
    sharding.operands = {partial};
    sharding.results = {result};
    CHECK(!find_strategies(rule, sharding, operand_shapes, result_shapes, mesh));
  }
  // [1, 3] on one rank, [2, 1] on the other: reduced, then 5.
  Region both = whole_region({2});
  RankTensors parts{{both, {1, 3}}, {both, {2, 1}}};
  RankTensors reduced = apply_move({MoveKind::kAllReduce, {0}, partial, whole}, {2}, parts, mesh);
  const RankTensors* operands[] = {&reduced};
  const TensorSharding results[] = {whole};
  const RankTensors sums = run_on_ranks(squares, operands, results, mesh)[0];
  for (const LocalTensor& sum : sums) CHECK(std::sqrt(sum.data[0]) == 5);

  // In a plan, a sum of squares that reads a gradient before it is reduced is refused.
  FaultModel model = clipped("0.01");
  Plan plan = plan_of(model, on("tp=2", true));
  int edited = 0;
  for (size_t i : find_steps(plan, [](const PlanStep& step) { return step.op == OpKind::kSumSquares; })) {
    const std::string& name = plan.tensors[static_cast<size_t>(plan.steps[i].operands[0])].name;
    CHECK(!tensor_named(plan, name).sharding.has_partial());
    int unreduced = find_tensor(plan, name.substr(0, name.find('@')));
    if (!plan.tensors[static_cast<size_t>(unreduced)].sharding.has_partial()) continue;
    Plan faulty = plan;
    faulty.steps[i].operands[0] = unreduced;
    CHECK(refusal(model, faulty) != "");
    CHECK(proof_flaw(model, faulty).find("is not linear in") != std::string::npos);
    ++edited;
  }
  CHECK(edited >= 5);
}

TEST_CASE("B027: clipping scales what the optimizer takes, in the memory of a rank's own gradients") {
  auto model_of = [](const std::string& clip) {
    FaultModel model = shipped("llama_tiny", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"ffn", 21}});
    size_t at = model.text.find("\"optimizer\"");
    model.text.replace(at, model.text.rfind('}') - at, R"("optimizer": {"type": "sgd", "lr": 1)" + clip + "}\n");
    return model;
  };
  FaultModel half = model_of("");
  {
    FaultModel wide = model_of(R"(, "clip_norm": 1e9)");
    EveryRank run(plan_of(wide, on("tp=1")));
    run.keep("grad_norm");
    run.train_step(fixed_batch(run.plan()));
    half = model_of(fmt::format(R"(, "clip_norm": {})", run.parts("grad_norm")[0].values.f32[0] / 2));
  }
  for (const MeshCase& mesh : {on("tp=1"), on("tp=2"), on("tp=4"), on("dp=2,tp=2", false, 2)}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(half, mesh));
    run.keep("grad_norm");
    std::map<std::string, std::vector<EveryRank::Part>> before;
    for (const auto& [parameter, gradient] : gradients(run.plan())) before[parameter] = run.parts(parameter);
    run.train_step(fixed_batch(run.plan()));
    double reported = static_cast<double>(run.parts("grad_norm")[0].values.f32[0]);
    // With lr 1 a weight falls by its clipped gradient. Every element counts once, at the rank that holds it first.
    double sum = 0;
    for (const auto& [parameter, old] : before) {
      std::vector<EveryRank::Part> now = run.parts(parameter);
      for (size_t rank = 0; rank < now.size(); ++rank) {
        bool is_replica = false;
        for (size_t r = 0; r < rank; ++r) is_replica = is_replica || now[r].region == now[rank].region;
        if (is_replica) continue;
        std::vector<float> step = old[rank].values.f32;
        for (size_t i = 0; i < step.size(); ++i) step[i] -= now[rank].values.f32[i];
        sum += norm_of(step);
      }
    }
    CHECK(std::sqrt(sum) == doctest::Approx(reported / 2).epsilon(1e-3));

    Plan plain = plan_of(model_of(""), mesh);
    Report report = make_report(run.plan());
    CHECK(run.plan().arena_bytes <= plain.arena_bytes + report.ranks[0].gradient_bytes + 64 * 64);
    for (const CollectiveRow& row : report.collectives) {
      if (row.layer == "optimizer") CHECK(row.elements == 1);
    }
  }
}

}  // namespace tpc::testing
