// What is told of the parts of a plan: of every collective something, and nothing that was not computed.
#include "passes/explanation.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/frontend/model.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

std::vector<testing::MeshCase> cases() {
  std::vector<testing::MeshCase> list = testing::megatron_cases();
  // Searches take longer: some of them.
  std::vector<testing::MeshCase> searched = testing::search_cases();
  for (size_t i = 0; i < searched.size(); i += 6) list.push_back(searched[i]);
  return list;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void check_collective(const ExplainedCollective& collective) {
  CAPTURE(collective.what);
  CHECK(contains(collective.what, "\"" + collective.row.tensor + "\""));
  CHECK(contains(collective.what, std::string(op_name(collective.row.kind))));
  CHECK_FALSE(collective.row.why.empty());
  CHECK_FALSE(collective.rule.empty());
}

void check_collectives(const std::string& model) {
  for (const testing::MeshCase& mesh : cases()) {
    if (mesh.sequence_parallel && model == "mlp") continue;
    CAPTURE(mesh.name);
    Plan plan = testing::compile_model(model, {{"batch", 4}}, mesh).plan;
    Report report = make_report(plan);
    for (const CollectiveRow& row : report.collectives) {
      // By the tensor, by what the collective makes, by the layer.
      const PlanStep& step = plan.steps[static_cast<size_t>(row.step)];
      for (const std::string& name :
           {row.tensor, plan.tensors[static_cast<size_t>(step.results[0])].name, step.layer}) {
        CAPTURE(name);
        std::optional<ExplainedNode> node = find_node(plan, report, name);
        REQUIRE(node.has_value());
        Explanation explanation = explain(plan, *node, report);
        bool is_told = false;
        for (const ExplainedCollective& collective : explanation.collectives) {
          is_told = is_told || collective.row.step == row.step;
          if (collective.row.step == row.step) check_collective(collective);
        }
        CHECK(is_told);
      }
    }
  }
}

Model small_model(const std::string& name) {
  DiagnosticSink sink;
  return load_model(std::string(TPC_SOURCE_DIR) + "/models/" + name + ".json", {}, sink);
}

CompileOptions options_for(const Model& model, const DeviceMesh& mesh) {
  CompileOptions options;
  options.mesh = mesh;
  options.optimizer = model.optimizer;
  options.model_json = model.json;
  return options;
}

Plan compiled(const Model& model, const CompileOptions& options) {
  DiagnosticSink sink;
  return compile(model.graph, options, sink).plan;
}

Explanation explained(const Model& model, const CompileOptions& options, const std::string& name) {
  Plan plan = compiled(model, options);
  Report report = make_report(plan);
  std::optional<ExplainedNode> node = find_node(plan, report, name);
  REQUIRE(node.has_value());
  return explain(plan, *node, std::move(report), model.graph, options);
}

const WayAround& way_with(const ExplainedCollective& collective, const std::string& change) {
  auto found = std::find_if(collective.ways.begin(), collective.ways.end(),
                            [&](const WayAround& way) { return way.change == change; });
  REQUIRE(found != collective.ways.end());
  return *found;
}

}  // namespace

TEST_CASE("every collective of tiny_gpt's plans is explained") { check_collectives("tiny_gpt"); }
TEST_CASE("every collective of llama_tiny's plans is explained") { check_collectives("llama_tiny"); }
TEST_CASE("every collective of mlp's plans is explained") { check_collectives("mlp"); }

TEST_CASE("what a way around costs is what its plan costs") {
  Model model = small_model("small_gpt");
  CompileOptions options = options_for(model, DeviceMesh({{"tp", 2}}));
  Explanation explanation = explained(model, options, "block0.proj");
  REQUIRE(explanation.collectives.size() == 1);
  const ExplainedCollective& collective = explanation.collectives[0];
  options.sequence_parallel = true;
  Plan split = compiled(model, options);
  const WayAround& way = way_with(collective, "--sequence-parallel");
  CHECK(way.becomes.starts_with("reduce_scatter tp, "));
  CHECK(way.received == make_report(split).step.received_bytes);
  CHECK(way.arena_bytes == split.arena_bytes);
  CHECK(way_with(collective, "\"shard\": \"replicate\" on block0.proj").becomes == "gone");
  CHECK(way_with(collective, "--mesh dp=2").becomes == "gone");
  // Of the ways that are told, priced by the search.
  REQUIRE(collective.without_sum.has_value());
  CHECK_FALSE(collective.without_sum->leaves_sum);
  for (const Alternative& other : explanation.alternatives[0].ways) {
    CHECK((other.leaves_sum || !other.price || *other.price >= *collective.without_sum->price));
  }
}

TEST_CASE("a gradient is reduced over dp because dp splits the batch") {
  Model model = small_model("small_gpt");
  CompileOptions options = options_for(model, DeviceMesh({{"dp", 2}, {"tp", 2}}));
  Explanation explanation = explained(model, options, "grad.block0.fc1.weight");
  REQUIRE(explanation.steps.size() == 1);
  CHECK(explanation.steps[0].phase == Phase::kBackward);
  CHECK_FALSE(explanation.alternatives.empty());
  REQUIRE(explanation.collectives.size() == 1);
  const ExplainedCollective& collective = explanation.collectives[0];
  CHECK(contains(collective.rule, "leaves a sum where it is split by batch, seq"));
  CHECK(way_with(collective, "--mesh tp=4").becomes == "gone");
  CHECK(way_with(collective, "--zero 2").becomes.starts_with("reduce_scatter dp, "));
  auto batch = std::find_if(explanation.steps[0].splits.begin(), explanation.steps[0].splits.end(),
                            [](const StepSplit& split) { return split.by == "batch"; });
  REQUIRE(batch != explanation.steps[0].splits.end());
  CHECK(batch->used_on == "dp");
  CHECK(batch->leaves_part);
}

TEST_CASE("what is parted whatever is done says so") {
  Model model = small_model("small_gpt");
  Explanation explanation = explained(model, options_for(model, DeviceMesh({{"dp", 2}, {"tp", 2}})), "loss.sum");
  REQUIRE_FALSE(explanation.collectives.empty());
  CHECK(contains(explanation.collectives[0].rule, "leaves a sum whatever it is split by"));
}

TEST_CASE("a split that the mesh is too large for is told with its reason") {
  Plan plan = testing::compile_model("tiny_gpt", {{"batch", 4}}, {"", DeviceMesh({{"tp", 8}})}).plan;
  Report report = make_report(plan);
  Explanation explanation = explain(plan, *find_node(plan, report, "block0.fc1"), report);
  const std::vector<StepSplit>& splits = explanation.steps[0].splits;
  auto batch = std::find_if(splits.begin(), splits.end(), [](const StepSplit& split) { return split.by == "batch"; });
  REQUIRE(batch != splits.end());
  CHECK_FALSE(batch->refused.empty());
}

TEST_CASE("nodes are layers, tensors and numbers of steps") {
  Plan plan = testing::compile_model("tiny_gpt", {}, {"", DeviceMesh({{"tp", 2}})}).plan;
  Report report = make_report(plan);
  CHECK(find_node(plan, report, "block0.fc1")->kind == ExplainedNode::Kind::kLayer);
  CHECK(find_node(plan, report, "block0.fc1.weight")->kind == ExplainedNode::Kind::kTensor);
  CHECK(find_node(plan, report, "0")->kind == ExplainedNode::Kind::kStep);
  CHECK_FALSE(find_node(plan, report, "-1").has_value());
  CHECK_FALSE(find_node(plan, report, std::to_string(plan.steps.size())).has_value());
  CHECK_FALSE(find_node(plan, report, "block9.fc1").has_value());
}

}  // namespace tpc
