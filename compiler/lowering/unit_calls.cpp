#include "compiler/lowering/unit_calls.h"

#include <algorithm>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/lowering/kernel_work.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

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

DeviceCall& add(DeviceUnit& unit, DeviceCallKind kind, DeviceQueueKind queue, std::string_view name) {
  DeviceCall& call = unit.calls.emplace_back();
  call.kind = kind;
  call.queue = queue;
  call.name = name;
  return call;
}

CallTensor in_arena(const LocalTensor& tensor, std::string name) {
  CallTensor result;
  result.name = std::move(name);
  result.type = TensorType{tensor.type.dtype, tensor.region.extents()};
  result.offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data) - kListedArena);
  return result;
}

CallTensor in_workspace(DType dtype, Shape shape, int64_t offset) {
  CallTensor result;
  result.type = TensorType{dtype, std::move(shape)};
  result.place = CallPlace::kWorkspace;
  result.offset = offset;
  return result;
}

template <class PlaceOf>
void add_collective_call(DeviceUnit& unit, const CollectiveStep& collective, const CollectiveCall& call,
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

}  // namespace

void add_copy(DeviceUnit& unit, DeviceQueueKind queue, CallTensor from, CallTensor to, int64_t bytes) {
  DeviceCall& call = add(unit, DeviceCallKind::kCopy, queue, "cudaMemcpyAsync");
  call.reads.push_back(std::move(from));
  call.writes.push_back(std::move(to));
  call.bytes = bytes;
}

void UnitCalls::add_to(DeviceUnit& unit, const RankUnit& lowered) {
  if (lowered.collective) {
    add_collective(unit, *lowered.collective);
  } else if (!lowered.kernel.empty() && lowered.kernel[0].op == OpKind::kContract) {
    for (const FusedMatmul& product : fuse_contractions(lowered.kernel).matmuls) add_product(unit, lowered, product);
  } else if (!lowered.kernel.empty()) {
    add_kernel(unit, lowered);
  }
}

CallTensor UnitCalls::tensor(int index) const { return in_arena(local(index), name(index)); }

LocalTensor UnitCalls::local(int tensor) const {
  return local_tensor(plan_, program_, tensor, reinterpret_cast<std::byte*>(kListedArena));
}

std::vector<CallTensor> UnitCalls::named(const std::vector<LocalTensor>& tensors,
                                         const std::vector<int>& indices) const {
  std::vector<CallTensor> result;
  for (size_t i = 0; i < tensors.size(); ++i) result.push_back(in_arena(tensors[i], name(indices[i])));
  return result;
}

void UnitCalls::add_kernel(DeviceUnit& unit, const RankUnit& lowered) {
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
  if (work.copied_bytes > 0) add_copy(unit, lowered.queue, reads[0], writes[0], work.copied_bytes);
  if (work.launches == 0) return;
  DeviceCall& call = add(unit, DeviceCallKind::kKernel, lowered.queue, op_name(steps[0].op));
  call.reads = std::move(reads);
  call.writes = std::move(writes);
  call.launches = work.launches;
  call.num_steps = static_cast<int64_t>(steps.size());
}

CallTensor UnitCalls::find(const RankUnit& lowered, const LocalTensor& tensor, bool is_written,
                           std::string role) const {
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

void UnitCalls::add_product(DeviceUnit& unit, const RankUnit& lowered, const FusedMatmul& product) {
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

void UnitCalls::add_collective(DeviceUnit& unit, const CollectiveStep& collective) {
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
  count.place = CallPlace::kCounter;
  count.offset = kCountBytes * num_collectives_++;
  CallTensor to;
  to.name = "collectives done";
  to.place = CallPlace::kHost;
  add_copy(unit, DeviceQueueKind::kCommunication, std::move(count), std::move(to), kCountBytes);
}

}  // namespace tpc
