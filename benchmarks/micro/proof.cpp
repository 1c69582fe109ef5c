// The static proof of plans (docs/verify.md): the model's values by number, the plan, its buffers, and the programs of
// all ranks. Neither loading the plan nor differentiating the model is in the time.
#include <benchmark/benchmark.h>

#include <map>
#include <string>

#include "compiler/frontend/model.h"
#include "passes/pipeline.h"
#include "passes/plan_flaw.h"

namespace tpc {
namespace {

void prove(benchmark::State& state, const std::string& name, const std::map<std::string, int64_t>& dims,
           const DeviceMesh& mesh) {
  DiagnosticSink sink;
  Model model = load_model(std::string(TPC_SOURCE_DIR) + "/models/" + name + ".json", {dims}, sink);
  CompileOptions options;
  options.mesh = mesh;
  options.optimizer = model.optimizer;
  const Graph one_rank = differentiated(model.graph, options);
  const Plan plan = compile(std::move(model.graph), options, sink).plan;
  for (auto iteration : state) benchmark::DoNotOptimize(find_plan_flaw(plan, one_rank));
  state.counters["ranks"] = static_cast<double>(plan.mesh.world_size());
  state.counters["steps"] = static_cast<double>(plan.steps.size());
}

const bool kRegistered = [] {
  auto add = [](const std::string& name, const std::map<std::string, int64_t>& dims, const DeviceMesh& mesh) {
    benchmark::RegisterBenchmark(("prove/" + name + "/" + to_string(mesh)).c_str(), prove, name, dims, mesh)
        ->Unit(benchmark::kMillisecond);
  };
  add("small_gpt", {}, DeviceMesh({{"tp", 2}}));
  add("gpt2_124m", {}, DeviceMesh({{"tp", 4}}));
  add("llama3_405b", {}, DeviceMesh({{"tp", 8}}));
  add("llama3_405b", {{"batch", 128}}, DeviceMesh({{"dp", 128}, {"tp", 128}}));
  return true;
}();

}  // namespace
}  // namespace tpc
