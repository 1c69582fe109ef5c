#include "compiler/lowering/device_calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/lowering/together.h"
#include "compiler/lowering/unit_calls.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

/// Seed and number of a training step, which kernels read on the device.
constexpr int64_t kContextBytes = sizeof(StepContext);

int64_t num_bytes(const CallTensor& tensor) { return num_elements(tensor.type->shape) * byte_size(tensor.type->dtype); }

CallTensor on_host(CallTensor tensor) {
  tensor.place = CallPlace::kHost;
  tensor.offset = 0;
  return tensor;
}

class Builder {
 public:
  Builder(const Plan& plan, const RankPlan& program) : plan_(plan), program_(program), calls_(plan, program) {}

  DeviceCalls run() {
    result_.rank = program_.rank;
    auto* arena = reinterpret_cast<std::byte*>(kListedArena);
    RankUnits lowered = lower_rank(plan_, program_, arena, num_together);
    result_.workspace = device_workspace(lowered);
    result_.arena_bytes = plan_.arena_bytes;
    find_outputs();
    begin_step();
    std::vector<int> events(lowered.units.size(), -1);
    for (size_t i = 0; i <= lowered.units.size(); ++i) {
      // Weights change only after the host has looked at the outputs.
      if (i == lowered.first_change) next_segment();
      if (i == lowered.units.size()) break;
      add_unit(lowered.units[i], events, i);
    }
    end_segment();
    add_totals();
    return std::move(result_);
  }

 private:
  const PlanStep& step(int i) const { return plan_.steps[static_cast<size_t>(i)]; }

  /// Named outputs are copied to the host as soon as they are made.
  void find_outputs() {
    std::set<int> found;
    for (const auto& [name, tensor] : plan_.outputs) {
      auto makes = [&, output = tensor](const PlanStep& s) { return std::ranges::count(s.results, output) > 0; };
      auto maker = std::ranges::find_if(plan_.steps, makes);
      if (maker != plan_.steps.end() && found.insert(tensor).second) {
        outputs_.emplace_back(static_cast<int>(maker - plan_.steps.begin()), tensor);
      }
    }
  }

  DeviceUnit& new_unit(int first, int end) {
    DeviceUnit& unit = result_.units.emplace_back();
    unit.first = first;
    unit.end = end;
    unit.segment = segment_;
    return unit;
  }

  static void add_event(DeviceUnit& unit, DeviceCallKind kind, DeviceQueueKind queue, int event) {
    DeviceCall& call = unit.calls.emplace_back();
    call.kind = kind;
    call.queue = queue;
    call.name = kind == DeviceCallKind::kRecord ? "cudaEventRecord" : "cudaStreamWaitEvent";
    call.event = event;
  }
  int record(DeviceUnit& unit, DeviceQueueKind queue) {
    add_event(unit, DeviceCallKind::kRecord, queue, num_events_);
    return num_events_++;
  }
  static void wait(DeviceUnit& unit, DeviceQueueKind queue, int event) {
    add_event(unit, DeviceCallKind::kWait, queue, event);
  }

  /// The batch, and what varies from step to step.
  void begin_step() {
    std::vector<int> inputs;
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      if (plan_.tensors[t].role == TensorRole::kInput) inputs.push_back(static_cast<int>(t));
    }
    auto name_of = [&](int tensor) { return plan_.tensors[static_cast<size_t>(tensor)].name; };
    std::ranges::sort(inputs, {}, name_of);
    DeviceUnit& unit = new_unit(-1, -1);
    for (int input : inputs) {
      CallTensor to = calls_.tensor(input);
      add_copy(unit, DeviceQueueKind::kCompute, on_host(to), to, num_bytes(to));
    }
    CallTensor context;
    context.name = "seed and step";
    context.place = CallPlace::kHost;
    CallTensor to = context;
    to.place = CallPlace::kContext;
    add_copy(unit, DeviceQueueKind::kCompute, std::move(context), std::move(to), kContextBytes);
    ++segment_;
    begin_segment();
  }

  // What a segment issues comes after all that was issued before it, in both queues.
  void begin_segment() {
    DeviceUnit& unit = new_unit(-1, -1);
    wait(unit, DeviceQueueKind::kCommunication, record(unit, DeviceQueueKind::kCompute));
  }
  void end_segment() {
    DeviceUnit& unit = new_unit(-1, -1);
    wait(unit, DeviceQueueKind::kCompute, record(unit, DeviceQueueKind::kCommunication));
  }
  void next_segment() {
    end_segment();
    ++segment_;
    begin_segment();
  }

  void add_unit(const RankUnit& lowered, std::vector<int>& events, size_t index) {
    DeviceUnit& unit = new_unit(lowered.first, lowered.end);
    unit.layer = step(lowered.kernel_steps.empty() ? lowered.first : lowered.kernel_steps[0]).layer;
    for (size_t awaited : lowered.waits_for) wait(unit, lowered.queue, events[awaited]);
    calls_.add_to(unit, lowered);
    for (const auto& [maker, tensor] : outputs_) {
      if (maker >= lowered.first && maker < lowered.end) download(unit, tensor, lowered.queue);
    }
    if (lowered.is_awaited) events[index] = record(unit, lowered.queue);
    if (unit.calls.empty()) result_.units.pop_back();
  }

  void download(DeviceUnit& unit, int tensor, DeviceQueueKind queue) {
    CallTensor from = calls_.tensor(tensor);
    add_copy(unit, queue, from, on_host(from), num_bytes(from));
  }

  void add_totals() {
    CallTotals& totals = result_.totals;
    for (const DeviceUnit& unit : result_.units) {
      totals.received_bytes += unit.received_bytes;
      for (const DeviceCall& call : unit.calls) {
        totals.kernels += call.launches;
        totals.matmuls += call.kind == DeviceCallKind::kMatmul ? 1 : 0;
        if (call.matmul) totals.matmul_flops += call.matmul->flops();
        if (call.nccl && call.nccl->count > 0) ++totals.collective_calls;
        totals.copies += call.kind == DeviceCallKind::kCopy ? 1 : 0;
        totals.fills += call.kind == DeviceCallKind::kFill ? 1 : 0;
        totals.records += call.kind == DeviceCallKind::kRecord ? 1 : 0;
        totals.waits += call.kind == DeviceCallKind::kWait ? 1 : 0;
      }
    }
  }

  const Plan& plan_;
  const RankPlan& program_;
  UnitCalls calls_;
  DeviceCalls result_;
  std::vector<std::pair<int, int>> outputs_;  // (step, tensor)
  int segment_ = -1;
  int num_events_ = 0;
};

}  // namespace

std::string_view to_string(CallPlace place) {
  switch (place) {
    case CallPlace::kArena:
      return "arena";
    case CallPlace::kWorkspace:
      return "workspace";
    case CallPlace::kContext:
      return "context";
    case CallPlace::kCounter:
      return "counter";
    case CallPlace::kHost:
      return "host";
  }
  TPC_UNREACHABLE("place {}", static_cast<int>(place));
}

std::string_view to_string(DeviceCallKind kind) {
  switch (kind) {
    case DeviceCallKind::kRecord:
      return "record";
    case DeviceCallKind::kWait:
      return "wait";
    case DeviceCallKind::kMatmul:
      return "matmul";
    case DeviceCallKind::kKernel:
      return "kernel";
    case DeviceCallKind::kCopy:
      return "copy";
    case DeviceCallKind::kFill:
      return "fill";
    case DeviceCallKind::kCollective:
      return "collective";
  }
  TPC_UNREACHABLE("call {}", static_cast<int>(kind));
}

DeviceCalls device_calls(const Plan& plan, const RankPlan& program) { return Builder(plan, program).run(); }

}  // namespace tpc
