#include "runtime/cuda/cudnn/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tpc::cuda::cudnn {
namespace {

// Best first.
std::vector<Descriptor> propose(const OperationGraph& graph, const Descriptor& whole, const PlanDevice& device) {
  Descriptor heuristics(graph.library(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  device.set_properties(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  heuristics.finalize("heuristics");
  return heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

// By the library's own note. It is silent on the engines that add a gradient up in any order: what keeps those out is
// the form of the graph.
bool is_deterministic(const Descriptor& configuration) {
  for (const Descriptor& engine :
       configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR)) {
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes = {};
    int64_t count = 0;
    const Library& library = engine.library();
    library.check(library.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        static_cast<int64_t>(notes.size()), &count, notes.data()),
                  "cudnnBackendGetAttribute");
    auto end = notes.begin() + std::min(count, static_cast<int64_t>(notes.size()));
    if (std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != end) return false;
  }
  return true;
}

ExecutionPlan compile(const Descriptor& configuration, const PlanDevice& device) {
  Descriptor plan(configuration.library(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  device.set_handle(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  device.set_properties(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
  plan.finalize("execution plan");
  int64_t workspace = plan.get_number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  return {std::move(plan), workspace};
}

}  // namespace

PlanDevice::PlanDevice(const Library& library, const std::string& properties) {
  properties_.emplace(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(properties.size()),
                   properties.data());
  properties_->finalize("device properties");
}

void PlanDevice::set_handle(Descriptor& descriptor, cudnnBackendAttributeName_t name) const {
  if (handle_ != nullptr) descriptor.set(name, CUDNN_TYPE_HANDLE, 1, &handle_);
}

void PlanDevice::set_properties(Descriptor& descriptor, cudnnBackendAttributeName_t name) const {
  if (properties_) descriptor.set(name, properties_->get());
}

namespace {

void try_proposals(const OperationGraph& graph, const PlanDevice& device, int64_t most_workspace, PlanChoice& choice) {
  Descriptor whole(graph.library(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const auto& operations = graph.operations();
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(operations.size()),
            operations.data());
  device.set_handle(whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  whole.finalize("operation graph");
  choice.refusal = "no engine knows the graph";
  for (const Descriptor& configuration : propose(graph, whole, device)) {
    if (!is_deterministic(configuration)) {
      choice.refusal = "the engines sum in any order";
      continue;
    }
    try {
      ExecutionPlan plan = compile(configuration, device);
      if (plan.workspace_bytes <= most_workspace) {
        choice.plan = std::move(plan);
        return;
      }
      choice.refusal = fmt::format("it needs {} bytes of working memory", plan.workspace_bytes);
    } catch (const CudnnError& error) {
      // Proposals are made without compiling.
      choice.refusal = error.what();
    }
  }
}

}  // namespace

PlanChoice plan_attention(const Library& library, const CudnnAttention& asked, const PlanDevice& device,
                          int64_t most_workspace) {
  PlanChoice choice;
  try {
    OperationGraph graph(library);
    asked.is_grad ? add_attention_grad(graph, asked) : add_attention(graph, asked);
    try_proposals(graph, device, most_workspace, choice);
  } catch (const CudnnError& error) {
    if (!error.is_refusal()) throw;
    choice.refusal = error.what();
  }
  if (choice.plan) choice.refusal.clear();
  return choice;
}

}  // namespace tpc::cuda::cudnn
