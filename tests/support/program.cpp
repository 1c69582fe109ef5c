#include "tests/support/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/check_plan.h"
#include "passes/fit_memory.h"
#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

/// The input that a use reads, before any conversion ("tokens@[S(1)]").
std::string input_name(const Graph& graph, ValueId value) {
  const std::string& name = graph.value(value).name;
  return name.substr(0, name.find('@'));
}

/// Largest id that each integer input may hold, by how it is used.
std::map<std::string, int64_t> id_limits(const Graph& graph) {
  std::map<std::string, int64_t> limits;
  auto limit = [&](ValueId ids, int64_t rows) {
    auto [entry, is_new] = limits.try_emplace(input_name(graph, ids), rows);
    if (!is_new) entry->second = std::min(entry->second, rows);
  };
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kEmbedding) limit(node.operands[0], graph.value(node.operands[1]).type.shape[0]);
    if (node.op == OpKind::kSoftmaxStats) limit(node.operands[1], graph.value(node.operands[0]).type.shape.back());
  }
  return limits;
}

bool is_target(const Graph& graph, const std::string& name) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.op == OpKind::kSoftmaxStats && input_name(graph, node.operands[1]) == name;
  });
}

GlobalTensor input_tensor(const Graph& graph, const Node& node, bool ignore) {
  ValueId id = node.results[0];
  const Value& value = graph.value(id);
  if (value.type.dtype == DType::kF32) return random_normal_tensor(value.type, 7, value.name);
  std::map<std::string, int64_t> limits = id_limits(graph);
  GlobalTensor tensor = random_integer_tensor(value.type, 7, value.name, 0, limits.at(value.name));
  if (!ignore || !is_target(graph, value.name)) return tensor;
  int64_t per_row = num_elements(value.type.shape) / value.type.shape[0];
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (static_cast<int64_t>(i) < per_row || i % 3 == 0) tensor.data[i] = -100;
  }
  return tensor;
}

}  // namespace

std::vector<MeshCase> megatron_cases() {
  auto mesh = [](const char* text) { return *parse_mesh(text); };
  return {{"tp 1", mesh("tp=1")},
          {"tp 2", mesh("tp=2")},
          {"tp 3", mesh("tp=3")},
          {"tp 4", mesh("tp=4")},
          {"tp 5", mesh("tp=5")},
          {"tp 8", mesh("tp=8")},
          {"dp 2", mesh("dp=2")},
          {"dp 3", mesh("dp=3")},
          {"dp 2 tp 2", mesh("dp=2,tp=2")},
          {"dp 2 tp 3", mesh("dp=2,tp=3")},
          {"tp 2 sequence-parallel", mesh("tp=2"), true},
          {"tp 3 sequence-parallel", mesh("tp=3"), true},
          {"dp 2 tp 4 sequence-parallel", mesh("dp=2,tp=4"), true},
          {"dp 3 ZeRO 1", mesh("dp=3"), false, 1},
          {"dp 2 tp 3 ZeRO 2", mesh("dp=2,tp=3"), false, 2},
          {"dp 2 ZeRO 3", mesh("dp=2"), false, 3},
          {"dp 2 tp 2 ZeRO 3 sequence-parallel", mesh("dp=2,tp=2"), true, 3}};
}

std::vector<MeshCase> search_cases() {
  std::vector<MeshCase> cases;
  auto add = [&](std::string name, const char* mesh, SearchOptions options) {
    cases.push_back({"search " + name, *parse_mesh(mesh), false, 0, "search", std::move(options)});
  };
  SearchOptions bytes;
  SearchOptions priced;
  priced.memory_price = 3;
  SearchOptions dear;
  dear.memory_price = 1000;
  SearchOptions whole_tokens;
  whole_tokens.no_split = {"batch"};
  add("tp 1", "tp=1", bytes);
  add("tp 2", "tp=2", bytes);
  add("tp 3", "tp=3", bytes);
  add("tp 8", "tp=8", bytes);
  add("tp 4 without batch", "tp=4", whole_tokens);
  add("tp 5 without batch, priced", "tp=5", priced);
  cases.back().search.no_split = {"batch"};
  add("tp 3 priced", "tp=3", priced);
  add("tp 2 dear", "tp=2", dear);
  add("dp 3", "dp=3", bytes);
  add("dp 2 priced", "dp=2", priced);
  add("dp 4 dear", "dp=4", dear);
  add("dp 2 tp 2", "dp=2,tp=2", bytes);
  add("dp 2 tp 3 priced", "dp=2,tp=3", priced);
  add("dp 2 tp 2 free", "dp=2,tp=2", bytes);
  cases.back().search.free_axes = true;
  add("tp 4 as 2x2, priced", "tp=4", priced);
  cases.back().search.sub_axes = {2, 2};
  return cases;
}

std::vector<MeshCase> mesh_cases() {
  std::vector<MeshCase> cases = megatron_cases();
  std::vector<MeshCase> searched = search_cases();
  cases.insert(cases.end(), searched.begin(), searched.end());
  return cases;
}

CompileResult compile_text(const std::string& text, const std::string& file, const std::map<std::string, int64_t>& dims,
                           const MeshCase& mesh) {
  DiagnosticSink sink;
  Model loaded = parse_model(text, file, {dims, mesh.precision}, sink);
  CompileOptions options;
  options.mesh = mesh.mesh;
  options.sequence_parallel = mesh.sequence_parallel;
  options.zero_stage = mesh.zero_stage;
  options.strategy = mesh.strategy;
  options.search = mesh.search;
  options.optimizer = loaded.optimizer;
  options.model_json = loaded.json;
  options.memory_limit = mesh.memory_limit;
  return compile_within(std::move(loaded.graph), options, sink);
}

std::string model_path(const std::string& model) { return std::string(TPC_SOURCE_DIR) + "/models/" + model + ".json"; }

CompileResult compile_model(const std::string& model, const std::map<std::string, int64_t>& dims,
                            const MeshCase& mesh) {
  return compile_text(read_whole(model_path(model)), model_path(model), dims, mesh);
}

Graph model_step(const std::string& model, const std::map<std::string, int64_t>& dims,
                 std::optional<Precision> precision) {
  DiagnosticSink sink;
  Model loaded = parse_model(read_whole(model_path(model)), model_path(model), {dims, precision}, sink);
  CompileOptions options;
  options.optimizer = loaded.optimizer;
  return differentiated(std::move(loaded.graph), options);
}

bool is_sound(const Plan& plan) {
  try {
    check_plan(plan, "plan.json");
    return true;
  } catch (const UserError&) {
    return false;
  }
}

Training train_reference(const Graph& graph, int steps, bool ignore) {
  ReferenceExecutor executor(graph);
  executor.set_parameters(3);
  for (const Node& node : graph.nodes) {
    if (node.op == OpKind::kInput)
      executor.set_leaf(graph.value(node.results[0]).name, input_tensor(graph, node, ignore));
  }
  Training training;
  for (int step = 0; step < steps; ++step) {
    executor.run_step({11, static_cast<uint64_t>(step)});
    training.losses.push_back(executor.output("loss").data.at(0));
  }
  for (const Node& node : graph.nodes) {
    if (node.op != OpKind::kUpdate) continue;
    const std::string& name = graph.value(node.operands[0]).name;
    training.tensors[name] = executor.value(name);
  }
  // The gradient under its first name, before and after every conversion, is the same global tensor.
  for (const Value& value : graph.values) {
    if (value.name.starts_with("grad.") && value.name.find('@') == std::string::npos) {
      training.tensors[value.name] = executor.value(value.name);
    }
  }
  return training;
}

std::string first_difference(const Training& wanted, const Training& found, double tolerance) {
  if (wanted.losses.size() != found.losses.size()) return "another number of steps";
  for (size_t i = 0; i < wanted.losses.size(); ++i) {
    double difference = std::abs(wanted.losses[i] - found.losses[i]);
    if (!(difference <= tolerance * std::max(1.0, std::abs(wanted.losses[i])))) {
      return fmt::format("loss of step {}: {} and {}", i, wanted.losses[i], found.losses[i]);
    }
  }
  for (const auto& [name, tensor] : wanted.tensors) {
    auto other = found.tensors.find(name);
    if (other == found.tensors.end()) return fmt::format("\"{}\" is missing", name);
    double difference = relative_difference(other->second, tensor);
    if (!(difference <= tolerance)) return fmt::format("\"{}\" differs by {}", name, difference);
  }
  return "";
}

}  // namespace tpc::testing
