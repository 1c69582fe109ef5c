// bf16 compute: which values stay f32, where casts stand, and what of them is left in a plan.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ops/op_def.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

const std::map<std::string, int64_t> kSmall{{"batch", 2}, {"layers", 1}};
constexpr const char* kModels[] = {"small_gpt", "tiny_gpt", "llama_tiny", "mlp"};

std::map<std::string, int64_t> dims_of(const std::string& model) {
  return model == "mlp" ? std::map<std::string, int64_t>{{"batch", 2}} : kSmall;
}

bool is_bf16(const Graph& graph, ValueId value) { return graph.value(value).type.dtype == DType::kBF16; }

Plan plan_of(const std::string& model, const char* mesh_text, const Precision& precision) {
  MeshCase mesh{mesh_text, *parse_mesh(mesh_text)};
  mesh.precision = precision;
  return compile_model(model, dims_of(model), mesh).plan;
}

const PlanTensor& tensor(const Plan& plan, int index) { return plan.tensors[static_cast<size_t>(index)]; }

/// Two projections of one input, whose gradient is the sum of what each gives.
constexpr const char* kTwoUses = R"({"format": "tpc-model", "version": 1, "name": "two",
"dims": {"batch": 4, "in": 6, "mid": 8, "out": 5},
"inputs": {"x": {"shape": ["batch", "in"], "dtype": "float32"}, "y": {"shape": ["batch", "out"], "dtype": "float32"}},
"precision": "bf16",
"layers": [
 {"name": "first", "op": "linear", "input": "x", "out": ["mid"]},
 {"name": "a", "op": "linear", "input": "first", "out": ["out"]},
 {"name": "b", "op": "linear", "input": "first", "out": ["out"]},
 {"name": "sum", "op": "add", "inputs": ["a", "b"]},
 {"name": "loss", "op": "mean_squared_error", "input": "sum", "targets": "y"}],
"loss": "loss"})";

}  // namespace

TEST_CASE("parameters, their gradients, the optimizer and the loss stay f32, and all the rest becomes bf16") {
  for (const char* model : kModels) {
    for (const Precision& precision : {kBF16, kAllBF16}) {
      CAPTURE(model);
      CAPTURE(to_string(precision));
      Graph graph = model_step(model, dims_of(model), precision);
      CHECK(graph.precision == precision);
      CHECK(!is_bf16(graph, graph.loss));
      int num_bf16 = 0;
      for (const Node& node : graph.nodes) {
        bool is_full = is_leaf(node.op) || node.phase == Phase::kOptimizer;
        for (ValueId result : node.results) {
          if (is_full) CHECK(!is_bf16(graph, result));
          num_bf16 += is_bf16(graph, result) ? 1 : 0;
        }
        for (ValueId operand : node.operands) {
          if (node.phase == Phase::kOptimizer) CHECK(!is_bf16(graph, operand));
        }
        if (!op_def(node.op).heavy) continue;
        // A contraction's operands are bf16, and so are those of attention, but for its statistics.
        CHECK(is_bf16(graph, node.operands[0]));
        CHECK(is_bf16(graph, node.operands[1]));
      }
      CHECK(num_bf16 > 10);
    }
  }
}

TEST_CASE("a value is cast once for all its uses, and never back") {
  for (const char* model : kModels) {
    CAPTURE(model);
    Graph graph = model_step(model, dims_of(model), kBF16);
    std::vector<int> made_by = producers(graph);
    std::set<std::pair<ValueId, std::string>> seen;
    for (const Node& node : graph.nodes) {
      if (node.op != OpKind::kCast) continue;
      CHECK(seen.emplace(node.operands[0], node.attributes.get_string("to")).second);
      CHECK(graph.nodes[static_cast<size_t>(made_by[node.operands[0].position()])].op != OpKind::kCast);
    }
  }
}

TEST_CASE("with sums in f32 no bf16 tensor of any plan is a partial sum, with sums in bf16 some are") {
  for (const char* mesh : {"tp=2", "dp=2,tp=2"}) {
    for (const Precision& precision : {kBF16, kAllBF16}) {
      Plan plan = plan_of("tiny_gpt", mesh, precision);
      int num_partial = 0;
      for (const PlanTensor& made : plan.tensors) {
        num_partial += made.sharding.has_partial() && made.type.dtype == DType::kBF16 ? 1 : 0;
      }
      CHECK_EQ(num_partial > 0, precision == kAllBF16);
    }
  }
}

TEST_CASE("collectives are those of f32, with their bytes by type") {
  for (const char* model : {"small_gpt", "tiny_gpt", "llama_tiny"}) {
    for (const char* mesh : {"tp=2", "tp=3", "dp=2,tp=2"}) {
      CAPTURE(model);
      CAPTURE(mesh);
      auto moves = [&](const Precision& precision) {
        std::multiset<std::string> found;
        Plan plan = plan_of(model, mesh, precision);
        for (const PlanStep& step : plan.steps) {
          if (!is_collective(step.op)) continue;
          const PlanTensor& from = tensor(plan, step.operands[0]);
          found.insert(std::string(op_name(step.op)) + to_string(from.type.shape) + to_string(from.sharding) +
                       std::string(to_string(step.phase)));
        }
        return found;
      };
      // Gradients of keys and values that all ranks share are completed at once, not after what rounds them.
      bool has_shared_heads = std::string(model) == "llama_tiny" && std::string(mesh) == "tp=3";
      if (!has_shared_heads) CHECK(moves(Precision{}) == moves(kBF16));
      CHECK(moves(Precision{}) == moves(kAllBF16));
    }
  }
}

TEST_CASE("on one rank sums are made in bf16 at once, but for gradients and what is added up") {
  Plan plan = plan_of("tiny_gpt", "tp=1", kBF16);
  std::vector<int> made_by = producers(plan);
  std::map<int, int> reads;
  for (const PlanStep& step : plan.steps) {
    for (int operand : step.operands) ++reads[operand];
  }
  int num_casts = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.op != OpKind::kCast) continue;
    ++num_casts;
    int maker = made_by[static_cast<size_t>(step.operands[0])];
    bool is_of_sum = maker >= 0 && plan.steps[static_cast<size_t>(maker)].attributes.has("sums");
    if (is_of_sum) CHECK(reads[step.operands[0]] > 1);
  }
  CHECK(num_casts > 0);
  for (const PlanTensor& made : plan.tensors) {
    if (made.role == TensorRole::kWeight) CHECK(made.type.dtype == DType::kBF16);
    if (made.role == TensorRole::kGradient) CHECK(made.type.dtype == DType::kF32);
  }
}

TEST_CASE("parts of a gradient are added up before they are rounded, by one collective") {
  MeshCase mesh{"tp=2", *parse_mesh("tp=2")};
  Plan plan = compile_text(kTwoUses, "two.json", {}, mesh).plan;
  int sum = -1;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].name == "grad.first") sum = static_cast<int>(i);
  }
  REQUIRE(sum >= 0);
  CHECK(tensor(plan, sum).type.dtype == DType::kF32);
  int num_casts = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.op == OpKind::kCast && tensor(plan, step.results[0]).name == "grad.first.bf16") ++num_casts;
  }
  CHECK_EQ(num_casts, 1);
}

TEST_CASE("a model without a precision is f32, and asking for it changes nothing") {
  for (const char* model : kModels) {
    MeshCase asked{"tp=2", *parse_mesh("tp=2")};
    Plan without = compile_model(model, dims_of(model), asked).plan;
    asked.precision = Precision{};
    Plan with = compile_model(model, dims_of(model), asked).plan;
    CHECK(with.steps == without.steps);
    CHECK(with.tensors == without.tensors);
    CHECK(with.options == without.options);
  }
}

TEST_CASE("ZeRO 3 gathers weights in bf16") {
  MeshCase mesh{"dp=2", *parse_mesh("dp=2")};
  mesh.zero_stage = 3;
  mesh.precision = kBF16;
  Plan plan = compile_model("tiny_gpt", kSmall, mesh).plan;
  int num_gathered = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.op != OpKind::kAllGather || tensor(plan, step.results[0]).role != TensorRole::kWeight) continue;
    CHECK(tensor(plan, step.results[0]).type.dtype == DType::kBF16);
    ++num_gathered;
  }
  CHECK(num_gathered > 4);
}

}  // namespace tpc::testing
