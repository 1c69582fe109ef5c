#include "compiler/lowering/device_calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/lowering/kernel_work.h"
#include "compiler/lowering/together.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

/// Where the arena is taken to lie: as aligned as any memory of a device.
constexpr uintptr_t kArena = uintptr_t{1} << 40;

/// Seed and number of a training step, which kernels read on the device.
constexpr int64_t kContextBytes = sizeof(StepContext);
constexpr int64_t kCountBytes = sizeof(int64_t);

std::string_view function_of(CollectiveCallKind kind) {
  switch (kind) {
    case CollectiveCallKind::kAllReduce:
      return "ncclAllReduce";
    case CollectiveCallKind::kReduceScatter:
      return "ncclReduceScatter";
    case CollectiveCallKind::kAllGather:
      return "ncclAllGather";
    case CollectiveCallKind::kSend:
      return "ncclSend";
    case CollectiveCallKind::kReceive:
      return "ncclRecv";
    case CollectiveCallKind::kGroupStart:
      return "ncclGroupStart";
    case CollectiveCallKind::kGroupEnd:
      return "ncclGroupEnd";
    case CollectiveCallKind::kCopy:
    case CollectiveCallKind::kReduce:
      break;
  }
  TPC_UNREACHABLE("{} is no function of NCCL", to_string(kind));
}

int64_t num_bytes(const LocalTensor& tensor) { return tensor.region.num_elements() * byte_size(tensor.type.dtype); }

class Builder {
 public:
  Builder(const Plan& plan, const RankPlan& program) : plan_(plan), program_(program) {}

  DeviceCalls run() {
    result_.rank = program_.rank;
    auto* arena = reinterpret_cast<std::byte*>(kArena);
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

  static DeviceCall& add(DeviceUnit& unit, DeviceCallKind kind, DeviceQueueKind queue, std::string_view name) {
    DeviceCall& call = unit.calls.emplace_back();
    call.kind = kind;
    call.queue = queue;
    call.name = name;
    return call;
  }

  int record(DeviceUnit& unit, DeviceQueueKind queue) {
    add(unit, DeviceCallKind::kRecord, queue, "cudaEventRecord").event = num_events_;
    return num_events_++;
  }
  static void wait(DeviceUnit& unit, DeviceQueueKind queue, int event) {
    add(unit, DeviceCallKind::kWait, queue, "cudaStreamWaitEvent").event = event;
  }
  static void copy(DeviceUnit& unit, DeviceQueueKind queue, CallTensor from, CallTensor to, int64_t bytes) {
    DeviceCall& call = add(unit, DeviceCallKind::kCopy, queue, "cudaMemcpyAsync");
    call.reads.push_back(std::move(from));
    call.writes.push_back(std::move(to));
    call.bytes = bytes;
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
      LocalTensor tensor = local(input);
      CallTensor to = in_arena(tensor, name_of(input));
      CallTensor from = to;
      from.place = CallPlace::kHost;
      from.offset = 0;
      copy(unit, DeviceQueueKind::kCompute, std::move(from), std::move(to), num_bytes(tensor));
    }
    CallTensor context;
    context.name = "seed and step";
    context.place = CallPlace::kHost;
    CallTensor to = context;
    to.place = CallPlace::kContext;
    copy(unit, DeviceQueueKind::kCompute, std::move(context), std::move(to), kContextBytes);
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
    if (lowered.collective) {
      add_collective(unit, *lowered.collective);
    } else if (!lowered.kernel.empty() && lowered.kernel[0].op == OpKind::kContract) {
      for (const FusedMatmul& product : fuse_contractions(lowered.kernel).matmuls) add_product(unit, lowered, product);
    } else if (!lowered.kernel.empty()) {
      add_kernel(unit, lowered);
    }
    for (const auto& [maker, tensor] : outputs_) {
      if (maker >= lowered.first && maker < lowered.end) download(unit, tensor, lowered.queue);
    }
    if (lowered.is_awaited) events[index] = record(unit, lowered.queue);
    if (unit.calls.empty()) result_.units.pop_back();
  }

  void download(DeviceUnit& unit, int tensor, DeviceQueueKind queue) {
    LocalTensor source = local(tensor);
    CallTensor from = in_arena(source, plan_.tensors[static_cast<size_t>(tensor)].name);
    CallTensor to = from;
    to.place = CallPlace::kHost;
    to.offset = 0;
    copy(unit, queue, std::move(from), std::move(to), num_bytes(source));
  }

  LocalTensor local(int tensor) const {
    return local_tensor(plan_, program_, tensor, reinterpret_cast<std::byte*>(kArena));
  }

  static CallTensor in_arena(const LocalTensor& tensor, std::string name) {
    CallTensor result;
    result.name = std::move(name);
    result.type = TensorType{tensor.type.dtype, tensor.region.extents()};
    result.offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data) - kArena);
    return result;
  }

  static CallTensor in_workspace(DType dtype, Shape shape, int64_t offset) {
    CallTensor result;
    result.type = TensorType{dtype, std::move(shape)};
    result.place = CallPlace::kWorkspace;
    result.offset = offset;
    return result;
  }

  std::string name(int tensor) const { return plan_.tensors[static_cast<size_t>(tensor)].name; }

  /// Of a step's operands or results.
  std::vector<CallTensor> named(const std::vector<LocalTensor>& tensors, const std::vector<int>& indices) const {
    std::vector<CallTensor> result;
    for (size_t i = 0; i < tensors.size(); ++i) result.push_back(in_arena(tensors[i], name(indices[i])));
    return result;
  }

  void add_kernel(DeviceUnit& unit, const RankUnit& lowered) {
    const std::vector<LocalStep>& steps = lowered.kernel;
    KernelWork work = kernel_work(steps);
    std::vector<CallTensor> reads;
    std::vector<CallTensor> writes;
    for (size_t i = 0; i < steps.size(); ++i) {
      const PlanStep& of_plan = step(lowered.kernel_steps[i]);
      std::vector<CallTensor> operands = named(steps[i].operands, of_plan.operands);
      // An update writes its first operand.
      bool is_update = steps[i].op == OpKind::kUpdate;
      if (is_update) {
        writes.push_back(operands[0]);
        operands.erase(operands.begin());
      }
      reads.insert(reads.end(), operands.begin(), operands.end());
      if (is_update) continue;
      for (CallTensor& result : named(steps[i].results, of_plan.results)) writes.push_back(std::move(result));
    }
    if (work.filled_bytes > 0) {
      DeviceCall& call = add(unit, DeviceCallKind::kFill, lowered.queue, "cudaMemsetAsync");
      call.writes = writes;
      call.bytes = work.filled_bytes;
    }
    if (work.copied_bytes > 0) copy(unit, lowered.queue, reads[0], writes[0], work.copied_bytes);
    if (work.launches == 0) return;
    DeviceCall& call = add(unit, DeviceCallKind::kKernel, lowered.queue, op_name(steps[0].op));
    call.reads = std::move(reads);
    call.writes = std::move(writes);
    call.launches = work.launches;
    call.num_steps = static_cast<int64_t>(steps.size());
  }

  /// The tensor of the unit's steps that lies there: of those that are written the last one to be, of others the first.
  CallTensor find(const RankUnit& lowered, const LocalTensor& tensor, bool is_written, std::string role) const {
    int found = -1;
    auto look_at = [&](int candidate) {
      LocalTensor other = local(candidate);
      bool is_same = other.data == tensor.data && other.region == tensor.region && other.type == tensor.type;
      if (is_same && (found < 0 || is_written)) found = candidate;
    };
    for (int i : lowered.kernel_steps) {
      for (int candidate : is_written ? step(i).results : step(i).operands) look_at(candidate);
    }
    TPC_CHECK(found >= 0, "a product of step {} works on a tensor that is none of its steps'", lowered.first);
    CallTensor result = in_arena(tensor, name(found));
    result.role = std::move(role);
    return result;
  }

  void add_product(DeviceUnit& unit, const RankUnit& lowered, const FusedMatmul& product) {
    const Matmul& matmul = product.matmul;
    int64_t packed_bytes = 0;
    auto place = [&](const BlasMatrix& matrix, CallTensor tensor) {
      if (!matrix.copy) return std::pair(tensor, tensor);
      CallTensor packed = in_workspace(matrix.dtype, matrix.copy->loop.extents(), packed_bytes);
      packed.role = tensor.role;
      packed_bytes += packed_matrix_bytes(matrix);
      return std::pair(std::move(tensor), std::move(packed));
    };
    auto [a, a_used] = place(matmul.a, find(lowered, matmul.swapped ? product.x : product.w, false, "a"));
    auto [b, b_used] = place(matmul.b, find(lowered, matmul.swapped ? product.w : product.x, false, "b"));
    auto [d, d_used] = place(matmul.d, find(lowered, product.d, true, "d"));
    auto pack = [&](const BlasMatrix& matrix, const CallTensor& from, const CallTensor& to, std::string_view kind) {
      if (!matrix.copy) return;
      DeviceCall& call = add(unit, DeviceCallKind::kKernel, lowered.queue, kind);
      call.reads = {from};
      call.writes = {to};
      call.launches = 1;
    };
    pack(matmul.a, a, a_used, "pack");
    pack(matmul.b, b, b_used, "pack");
    DeviceCall& call = add(unit, DeviceCallKind::kMatmul, lowered.queue, "cublasLtMatmul");
    call.matmul = matmul;
    call.workspace = kMatmulWorkspace;
    call.reads = {std::move(a_used), std::move(b_used)};
    call.writes = {d_used};
    bool is_backward =
        matmul.epilogue == MatmulEpilogue::kGeluGrad || matmul.epilogue == MatmulEpilogue::kGeluGradBiasGrad;
    auto add_extra = [&](const std::optional<LocalTensor>& tensor, bool is_written, const char* role) {
      if (!tensor) return;
      (is_written ? call.writes : call.reads).push_back(find(lowered, *tensor, is_written, role));
    };
    add_extra(product.bias, is_backward, "bias");
    add_extra(product.aux, !is_backward, "aux");
    pack(matmul.d, d_used, d, "unpack");
  }

  void add_collective(DeviceUnit& unit, const CollectiveStep& collective) {
    const PlanStep& of_plan = step(unit.first);
    CollectiveCalls lowered = collective_calls(collective);
    int64_t element = byte_size(collective.input.type.dtype);
    unit.received_bytes = lowered.received * element;
    CallTensor input = in_arena(collective.input, name(of_plan.operands[0]));
    CallTensor output = in_arena(collective.output, name(of_plan.results[0]));
    for (const CollectiveCall& call : lowered.calls) {
      auto place = [&](const CallBuffer& buffer, Shape shape) {
        CallTensor tensor = buffer.place == CallBuffer::Place::kInput    ? input
                            : buffer.place == CallBuffer::Place::kOutput ? output
                                                                         : in_workspace(input.type->dtype, {}, 0);
        tensor.offset += buffer.offset * element;
        tensor.type->shape = std::move(shape);
        return tensor;
      };
      add_collective_call(unit, collective, call, place);
    }
    if (num_collectives_ == kMostCountedCollectives) return;
    CallTensor count;
    count.name = "its number";
    count.place = CallPlace::kCounter;
    count.offset = kCountBytes * num_collectives_++;
    CallTensor to = count;
    to.place = CallPlace::kHost;
    to.offset = 0;
    copy(unit, DeviceQueueKind::kCommunication, std::move(count), std::move(to), kCountBytes);
  }

  template <class PlaceOf>
  static void add_collective_call(DeviceUnit& unit, const CollectiveStep& collective, const CollectiveCall& call,
                                  const PlaceOf& place) {
    constexpr DeviceQueueKind kQueue = DeviceQueueKind::kCommunication;
    auto members = static_cast<int64_t>(collective.group.size());
    bool is_kernel = call.kind == CollectiveCallKind::kCopy || call.kind == CollectiveCallKind::kReduce;
    if (is_kernel) {
      bool is_copy = call.kind == CollectiveCallKind::kCopy;
      std::string_view kind = !is_copy                                      ? "reduce_pieces"
                              : call.to.place == CallBuffer::Place::kOutput ? "unpack"
                                                                            : "pack";
      DeviceCall& kernel = add(unit, DeviceCallKind::kKernel, kQueue, kind);
      kernel.reads = {place(call.from, is_copy ? call.from_region.extents() : Shape{call.num_pieces, call.count})};
      kernel.writes = {place(call.to, is_copy ? call.to_region.extents() : Shape{call.count})};
      kernel.launches = 1;
      return;
    }
    DeviceCall& made = add(unit, DeviceCallKind::kCollective, kQueue, function_of(call.kind));
    NcclCall nccl{call.kind, call.count, collective.input.type.dtype, collective.reduce, collective.group, -1};
    if (call.peer >= 0) nccl.peer = collective.group[static_cast<size_t>(call.peer)];
    made.nccl = std::move(nccl);
    switch (call.kind) {
      case CollectiveCallKind::kAllReduce:
        made.reads = {place(call.from, {call.count})};
        made.writes = {place(call.to, {call.count})};
        break;
      case CollectiveCallKind::kReduceScatter:
        made.reads = {place(call.from, {members * call.count})};
        made.writes = {place(call.to, {call.count})};
        break;
      case CollectiveCallKind::kAllGather:
        made.reads = {place(call.from, {call.count})};
        made.writes = {place(call.to, {members * call.count})};
        break;
      case CollectiveCallKind::kSend:
        made.reads = {place(call.from, {call.count})};
        break;
      case CollectiveCallKind::kReceive:
        made.writes = {place(call.to, {call.count})};
        break;
      default:
        break;
    }
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
  DeviceCalls result_;
  std::vector<std::pair<int, int>> outputs_;  // (step, tensor)
  int segment_ = -1;
  int num_events_ = 0;
  int64_t num_collectives_ = 0;
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
