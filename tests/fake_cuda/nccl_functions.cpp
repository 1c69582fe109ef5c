// Functions of NCCL that move data.
#include <nccl.h>

#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/failures.h"
#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/nccl_group.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

// Elements that the call reads and writes on this rank.
struct Extent {
  uint64_t in;
  uint64_t out;
};

Extent extent(const Operation& o, const ncclComm& communicator) {
  auto n = static_cast<uint64_t>(communicator.num_ranks);
  bool is_root = communicator.rank == o.root;
  switch (o.kind) {
    case OperationKind::kAllReduce:
      return {o.count, o.count};
    case OperationKind::kReduce:
      return {o.count, is_root ? o.count : 0};
    case OperationKind::kBroadcast:
      return {is_root ? o.count : 0, o.count};
    case OperationKind::kAllGather:
      return {o.count, n * o.count};
    case OperationKind::kReduceScatter:
      return {n * o.count, o.count};
    case OperationKind::kAllToAll:
      return {n * o.count, n * o.count};
    case OperationKind::kSend:
      return {o.count, 0};
    case OperationKind::kReceive:
      return {0, o.count};
  }
  return {};
}

// Where the input may lie in the output (or the other way round): bytes from one to the other.
bool is_in_place(const Operation& o, const ncclComm& communicator) {
  uint64_t own = static_cast<uint64_t>(communicator.rank) * o.count * size_of(o.type);
  switch (o.kind) {
    case OperationKind::kAllGather:
      return o.in == o.out + own;
    case OperationKind::kReduceScatter:
      return o.out == o.in + own;
    case OperationKind::kAllToAll:
      return false;
    default:
      return o.in == o.out;
  }
}

void check_buffers(const Operation& o, const ncclComm& communicator) {
  Extent elements = extent(o, communicator);
  uint64_t in = elements.in * size_of(o.type);
  uint64_t out = elements.out * size_of(o.type);
  const char* call = call_name(o.kind);
  check_device_range(call, "sendbuff", o.in, in, communicator.device->index);
  check_device_range(call, "recvbuff", o.out, out, communicator.device->index);
  bool overlap = in > 0 && out > 0 && o.in < o.out + out && o.out < o.in + in;
  if (overlap && !is_in_place(o, communicator)) {
    die("{}: sendbuff and recvbuff overlap, and not as an operation in place may (sendbuff is {}, recvbuff {})", call,
        describe_address(o.in), describe_address(o.out));
  }
}

bool is_valid(const Operation& o, const ncclComm& communicator) {
  bool reduces = o.kind == OperationKind::kAllReduce || o.kind == OperationKind::kReduce ||
                 o.kind == OperationKind::kReduceScatter;
  return size_of(o.type) > 0 && (!reduces || (o.op >= ncclSum && o.op <= ncclAvg)) && o.root >= 0 &&
         o.root < communicator.num_ranks;
}

ncclResult_t move_data(ncclComm_t communicator, cudaStream_t stream, const Operation& operation) {
  const char* call = call_name(operation.kind);
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call(call, planted); result != ncclSuccess) return fail_group(result);
  check_communicator(call, communicator);
  if (ncclResult_t result = communicator->check_usable(call); result != ncclSuccess) return fail_group(result);
  check_stream(call, stream);
  if (stream->device != communicator->device) {
    die("{}: communicator {}, and a stream of device {}", call, communicator->name(), stream->device->index);
  }
  if (!is_valid(operation, *communicator)) {
    say(fmt::format("{}: a type, reduction, root or peer that does not exist", call));
    return fail_group(ncclInvalidArgument);
  }
  check_buffers(operation, *communicator);
  Announced announced = announce(operation, 0);
  std::string arguments = to_string(announced).substr(std::string_view(call).size() + 1);
  if (!is_collective(operation.kind)) arguments += fmt::format(" peer {}", operation.root);
  log_call(stream, call, arguments, operation.count * size_of(operation.type), {operation.in, operation.out});
  if (planted && planted->kind == FailureKind::kAsync) {
    communicator->fail(nccl_error(planted->status, ncclRemoteError), fmt::format("{}: planted failure", call));
  }
  return add_to_group(*communicator, stream, operation, planted.has_value());
}

Operation operation(OperationKind kind, const void* in, void* out, uint64_t count, ncclDataType_t type,
                    ncclRedOp_t op = ncclSum, int root = 0) {
  return {kind, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, op, root};
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kAllReduce, in, out, count, type, op));
}

ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kReduce, in, out, count, type, op, root));
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kBroadcast, in, out, count, type, ncclSum, root));
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kAllGather, in, out, count, type));
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kReduceScatter, in, out, count, type, op));
}

ncclResult_t ncclAlltoAll(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kAllToAll, in, out, count, type));
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kSend, in, nullptr, count, type, ncclSum, peer));
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return move_data(comm, stream, operation(OperationKind::kReceive, nullptr, out, count, type, ncclSum, peer));
}

}  // extern "C"
