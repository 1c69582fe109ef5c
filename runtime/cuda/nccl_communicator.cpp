#include "runtime/cuda/nccl_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/core/check.h"
#include "compiler/lowering/collective_calls.h"
#include "compiler/lowering/region_copy.h"
#include "compiler/lowering/workspace.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/check_nccl.h"
#include "runtime/cuda/kernels/reduce_pieces.h"
#include "runtime/cuda/kernels/strided_copy.h"

namespace tpc::cuda {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
  }
  TPC_UNREACHABLE("dtype {}", static_cast<int>(dtype));
}

std::string describe(const CollectiveStep& step) {
  return fmt::format("{} of \"{}\" (plan step {})", op_name(step.op), step.name, step.step_index);
}

// The elements that two dense parts of a tensor share.
StridedCopy shared_elements(const CollectiveCall& call, int64_t element) {
  Region shared = intersection(call.from_region, call.to_region);
  return StridedCopy(shared, trailing_map(call.from_region, shared), trailing_map(call.to_region, shared), element);
}

class NcclCollective final : public Collective {
 public:
  NcclCollective(const CollectiveStep& step, NcclWorld& world, DeviceQueue& queue, const int64_t* count, int64_t* done)
      : world_(world),
        queue_(queue),
        communicator_(world.communicator_of(step.group, step.index)),
        input_(step.input),
        output_(step.output),
        reduce_(step.reduce),
        element_(byte_size(step.input.type.dtype)),
        count_(count),
        done_(done) {
    CollectiveCalls lowered = collective_calls(step);
    queue.reserve(lowered.workspace * element_);
    received_bytes_ = lowered.received * element_;
    for (CollectiveCall& call : lowered.calls) {
      std::optional<StridedCopy> copy;
      if (call.kind == CollectiveCallKind::kCopy) copy = shared_elements(call, element_);
      calls_.push_back({std::move(call), std::move(copy)});
    }
  }

  int64_t run() override {
    for (const Call& call : calls_) issue(call);
    if (count_ != nullptr) {
      TPC_CUDA(cudaMemcpyAsync(done_, count_, sizeof(int64_t), cudaMemcpyDeviceToHost, queue_.stream()));
    }
    return received_bytes_;
  }

 private:
  struct Call {
    CollectiveCall call;
    std::optional<StridedCopy> copy;
  };

  std::byte* address(const CallBuffer& buffer) const {
    std::byte* base = queue_.workspace();
    if (buffer.place == CallBuffer::Place::kInput) base = static_cast<std::byte*>(input_.data);
    if (buffer.place == CallBuffer::Place::kOutput) base = static_cast<std::byte*>(output_.data);
    return base + buffer.offset * element_;
  }

  void issue(const Call& prepared) {
    const CollectiveCall& call = prepared.call;
    const std::byte* from = address(call.from);
    std::byte* to = address(call.to);
    auto count = static_cast<size_t>(call.count);
    auto peer = static_cast<int>(call.peer);
    ncclDataType_t type = nccl_type(input_.type.dtype);
    ncclRedOp_t op = reduce_ == ReduceOp::kMax ? ncclMax : ncclSum;
    switch (call.kind) {
      case CollectiveCallKind::kAllReduce:
        check(ncclAllReduce(from, to, count, type, op, communicator_, queue_.stream()), "ncclAllReduce");
        break;
      case CollectiveCallKind::kReduceScatter:
        check(ncclReduceScatter(from, to, count, type, op, communicator_, queue_.stream()), "ncclReduceScatter");
        break;
      case CollectiveCallKind::kAllGather:
        check(ncclAllGather(from, to, count, type, communicator_, queue_.stream()), "ncclAllGather");
        break;
      // Calls within a group are taken when it ends.
      case CollectiveCallKind::kSend:
        check_nccl(ncclSend(from, count, type, peer, communicator_, queue_.stream()), "ncclSend", communicator_);
        break;
      case CollectiveCallKind::kReceive:
        check_nccl(ncclRecv(to, count, type, peer, communicator_, queue_.stream()), "ncclRecv", communicator_);
        break;
      case CollectiveCallKind::kGroupStart:
        TPC_NCCL(ncclGroupStart());
        break;
      case CollectiveCallKind::kGroupEnd:
        check(ncclGroupEnd(), "ncclGroupEnd");
        break;
      case CollectiveCallKind::kCopy:
        prepared.copy->launch(queue_, from, to);
        break;
      case CollectiveCallKind::kReduce:
        reduce_pieces(queue_, input_.type.dtype, reduce_, from, to, call.count, call.num_pieces);
        break;
    }
  }

  void check(ncclResult_t status, const char* call) { world_.check(status, call, communicator_); }

  NcclWorld& world_;
  DeviceQueue& queue_;
  ncclComm_t communicator_;
  LocalTensor input_;
  LocalTensor output_;
  ReduceOp reduce_;
  int64_t element_;
  const int64_t* count_;  // on the device: how many collectives of the step have ended with this one
  int64_t* done_;
  int64_t received_bytes_ = 0;
  std::vector<Call> calls_;
};

}  // namespace

NcclCommunicator::NcclCommunicator(NcclOptions options, DeviceQueue& queue)
    : world_(std::move(options)), queue_(queue), done_(sizeof(int64_t)) {
  counts_ = std::make_unique<CudaMemory>(kMostCountedCollectives * static_cast<int64_t>(sizeof(int64_t)), kDeviceMemory,
                                         queue.stream());
  std::vector<int64_t> counts(kMostCountedCollectives);
  std::iota(counts.begin(), counts.end(), 1);
  TPC_CUDA(cudaMemcpyAsync(counts_->data(), counts.data(), counts.size() * sizeof(int64_t), cudaMemcpyHostToDevice,
                           queue.stream()));
  TPC_CUDA(cudaStreamSynchronize(queue.stream()));
  *static_cast<int64_t*>(done_.data()) = 0;
}

std::unique_ptr<Collective> NcclCommunicator::prepare(const CollectiveStep& step) {
  const int64_t* count = nullptr;
  if (static_cast<int64_t>(names_.size()) < kMostCountedCollectives) {
    count = reinterpret_cast<const int64_t*>(counts_->data()) + names_.size();
    names_.push_back(describe(step));
  }
  static_cast<void>(queue_.take_reserved());
  auto collective = std::make_unique<NcclCollective>(step, world_, queue_, count, static_cast<int64_t*>(done_.data()));
  int64_t reserved = queue_.take_reserved();
  int64_t declared = collective_workspace(step);
  TPC_CHECK(reserved == declared, "{} works in {} bytes; the account says {}", describe(step), reserved, declared);
  return collective;
}

void NcclCommunicator::poll(std::chrono::steady_clock::time_point since) {
  world_.poll();
  auto now = std::chrono::steady_clock::now();
  int64_t done = *static_cast<volatile const int64_t*>(done_.data());
  if (done != last_done_) {
    last_done_ = done;
    last_change_ = now;
  }
  if (now - std::max(since, last_change_) <= world_.options().timeout) return;
  throw DeviceError(
      fmt::format("{} has not ended after {:.1f} s: a rank does not come to it, or computes for longer than that "
                  "(--timeout)",
                  pending(), static_cast<double>(world_.options().timeout.count()) / 1e3));
}

// What the step waits for: the collective after those that have ended.
std::string NcclCommunicator::pending() const {
  if (names_.empty()) return "a collective";
  return names_[static_cast<size_t>(last_done_) % names_.size()];
}

}  // namespace tpc::cuda
