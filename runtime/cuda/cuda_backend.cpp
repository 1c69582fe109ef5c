#include "runtime/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "compiler/core/check.h"
#include "compiler/lowering/together.h"
#include "compiler/lowering/workspace.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/event.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/symmetric_memory.h"

namespace tpc::cuda {
namespace {

struct KernelRow {
  OpKind op;
  // One of the two.
  PrepareKernel prepare = nullptr;
  PrepareGroup prepare_group = nullptr;
};

constexpr KernelRow kKernels[] = {
#define KERNEL(enumerator, stem) {OpKind::k##enumerator, prepare_##stem, nullptr},
#define GROUP_KERNEL(enumerator, stem) {OpKind::k##enumerator, nullptr, prepare_##stem##_group},
#include "runtime/cuda/kernel_list.def"
#undef GROUP_KERNEL
#undef KERNEL
};

// How long a wait looks at the queues without a pause, and how often afterwards.
constexpr std::chrono::milliseconds kSpin{2};
constexpr std::chrono::microseconds kPoll{50};

int64_t free_memory() {
  size_t free = 0;
  size_t total = 0;
  TPC_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

class EventMark final : public Mark {
 public:
  EventMark(cudaStream_t from, cudaStream_t to) : from_(from), to_(to) {}
  void set() override { event_.record(from_); }
  void await() override { event_.await(to_); }

 private:
  cudaStream_t from_;
  cudaStream_t to_;
  Event event_;
};

}  // namespace

CudaBackend::CudaBackend(CudaOptions options)
    : options_(std::move(options)),
      communication_(DeviceQueue::Priority::kHigh),
      matmuls_(options_.matmul, compute_),
      cudnn_(options_.use_cudnn ? make_cudnn_attentions(compute_) : nullptr) {
  TPC_CUDA(cudaGetDevice(&device_));
  count_memory_from_here();
}

void CudaBackend::enter() {
  // What fails here fails in the next call, too, or does not matter any more.
  static_cast<void>(cudaSetDevice(device_));
}

void CudaBackend::release_segments() { graphs_.clear(); }

void CudaBackend::quiesce() {
  static_cast<void>(cudaStreamSynchronize(compute_.stream()));
  static_cast<void>(cudaStreamSynchronize(communication_.stream()));
}

std::unique_ptr<DeviceMemory> CudaBackend::allocate(int64_t bytes, bool host_visible) {
  arena_bytes_ += bytes;
  const MemorySource& source = host_visible                ? kManagedMemory
                               : options_.symmetric_memory ? kSymmetricMemory
                                                           : kDeviceMemory;
  return std::make_unique<CudaMemory>(bytes, source, compute_.stream());
}

void CudaBackend::upload(void* device, const void* host, int64_t bytes) {
  TPC_CUDA(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, compute_.stream()));
}

void CudaBackend::download(void* host, const void* device, int64_t bytes, DeviceQueueKind queue) {
  cudaStream_t stream = queue == DeviceQueueKind::kCompute ? compute_.stream() : communication_.stream();
  TPC_CUDA(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream));
}

void* CudaBackend::host_buffer(int64_t bytes) { return host_buffers_.emplace_back(bytes).data(); }

size_t CudaBackend::num_together(std::span<const LocalStep> steps) const { return tpc::num_together(steps); }

std::unique_ptr<Kernel> CudaBackend::prepare_together(std::span<const LocalStep> steps) {
  // What cuDNN works in only it knows.
  if (cudnn_ && steps.size() == 1) {
    if (std::unique_ptr<Kernel> kernel = cudnn_->prepare(steps[0])) return kernel;
  }
  static_cast<void>(compute_.take_reserved());
  std::unique_ptr<Kernel> kernel = prepare_unchecked(steps);
  int64_t reserved = compute_.take_reserved();
  int64_t declared = kernel_workspace(steps);
  TPC_CHECK(reserved == declared, "the kernel of \"{}\" (op {}) works in {} bytes; its row of the account says {}",
            steps[0].name, op_name(steps[0].op), reserved, declared);
  return kernel;
}

std::unique_ptr<Kernel> CudaBackend::prepare_unchecked(std::span<const LocalStep> steps) {
  const LocalStep& first = steps[0];
  if (first.op == OpKind::kContract)
    return matmuls_.prepare(steps, [this](const LocalStep& step) { return prepare_unchecked({&step, 1}); });
  const auto* row = std::ranges::find(kKernels, first.op, &KernelRow::op);
  TPC_CHECK(row != std::end(kKernels), "the cuda backend has no kernel for \"{}\" (op {})", first.name,
            op_name(first.op));
  if (row->prepare_group != nullptr) return row->prepare_group(steps, compute_);
  TPC_CHECK(steps.size() == 1, "{} steps {} for one kernel", steps.size(), op_name(first.op));
  return row->prepare(first, compute_);
}

std::unique_ptr<Mark> CudaBackend::make_mark(DeviceQueueKind queue) {
  bool is_compute = queue == DeviceQueueKind::kCompute;
  cudaStream_t from = is_compute ? compute_.stream() : communication_.stream();
  cudaStream_t to = is_compute ? communication_.stream() : compute_.stream();
  return std::make_unique<EventMark>(from, to);
}

void CudaBackend::begin_step(const StepContext& context) { compute_.set_context(context); }

void CudaBackend::run(Segment& segment, bool is_observed) {
  graphs_[segment.id()].run(compute_, communication_, is_observed || !options_.use_graphs,
                            [&segment] { segment.issue(); });
}

void CudaBackend::wait() {
  auto start = std::chrono::steady_clock::now();
  while (!compute_.is_done() || !communication_.is_done()) {
    if (poll_) poll_(start);
    if (std::chrono::steady_clock::now() - start > kSpin) std::this_thread::sleep_for(kPoll);
  }
}

void CudaBackend::count_memory_from_here() { free_at_start_ = free_memory(); }

int64_t CudaBackend::planned_workspace(const RankUnits& units) const {
  return device_workspace(units, options_.use_cudnn).total();
}

std::optional<MemoryUse> CudaBackend::memory_use() const {
  return MemoryUse{arena_bytes_ + compute_.held_bytes() + communication_.held_bytes(), free_at_start_ - free_memory()};
}

}  // namespace tpc::cuda
