#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/lowering/workspace.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/cudnn/plan.h"
#include "runtime/cuda/cudnn/variant_pack.h"
#include "runtime/cuda/cudnn_attention.h"
#include "runtime/cuda/kernels/strided_copy.h"

namespace tpc::cuda::cudnn {
namespace {

/// More is refused: scores of one key head's queries at some 20 thousand tokens.
constexpr int64_t kMostWorkspace = int64_t{4} << 30;

/// The library's state for one stream.
class Handle {
 public:
  Handle(const Library& library, cudaStream_t stream) : library_(library) {
    library.check(library.create(&handle_), "cudnnCreate");
    library.check(library.set_stream(handle_, stream), "cudnnSetStream");
  }
  ~Handle() { static_cast<void>(library_.destroy(handle_)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }
  const Library& library() const { return library_; }

 private:
  const Library& library_;
  cudnnHandle_t handle_ = nullptr;
};

/// lse[b,s,a] of the op, and [b,a,s] as the engines read and write it.
struct StatisticsCopies {
  StridedCopy to_library;
  StridedCopy from_library;
};

// Nothing where both are the same bytes.
std::optional<StatisticsCopies> statistics_copies(const CudnnAttention& asked) {
  if (!has_own_statistics(asked)) return std::nullopt;
  Region loop{{{0, asked.batch}, {0, asked.queries}, {0, asked.heads}}};
  int64_t sample = asked.queries * asked.heads;
  IndexMap of_op{0, {sample, asked.heads, 1}};
  IndexMap of_library{0, {sample, 1, asked.queries}};
  constexpr int64_t kElement = sizeof(float);
  return StatisticsCopies{StridedCopy(loop, of_op, of_library, kElement),
                          StridedCopy(loop, of_library, of_op, kElement)};
}

/// Working memory: statistics in the library's order, the dots of a part, the plan's own.
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const LocalStep& step, const CudnnAttention& whole, const CudnnAttention& part,
                  const ExecutionPlan& plan, const Handle& handle, DeviceQueue& queue)
      : whole_(whole),
        part_(part),
        plan_(plan),
        handle_(handle),
        queue_(queue),
        pointers_(pointers_of(step)),
        values_(part),
        copies_(statistics_copies(whole)) {
    const int64_t element = sizeof(float);
    if (copies_) dots_offset_ = whole_lines(whole.batch * whole.heads * whole.queries * element);
    plan_offset_ = dots_offset_;
    if (part.is_grad) plan_offset_ += whole_lines(part.batch * part.heads * part.queries * element);
    queue.reserve(plan_offset_ + plan.workspace_bytes);
  }

  void run(const StepContext& /*context*/) override {
    std::byte* workspace = queue_.workspace();
    if (workspace != bound_to_) bind(workspace);
    if (part_.is_grad) {
      if (copies_) copies_->to_library.launch(queue_, pointers_.lse, workspace);
      clear_unseen(pointers_.dk);
      clear_unseen(pointers_.dv);
    }
    const Library& library = handle_.library();
    for (const Descriptor& pack : packs_) {
      library.check(library.execute(handle_.get(), plan_.descriptor.get(), pack.get()), "cudnnBackendExecute");
    }
    if (!part_.is_grad && copies_) copies_->from_library.launch(queue_, workspace, pointers_.lse);
  }

 private:
  static AttentionPointers pointers_of(const LocalStep& step) {
    auto data = [](const LocalTensor& tensor) { return static_cast<std::byte*>(tensor.data); };
    const auto& operands = step.operands;
    const auto& results = step.results;
    if (step.op == OpKind::kAttention) {
      return {.q = data(operands[0]),
              .k = data(operands[1]),
              .v = data(operands[2]),
              .o = data(results[0]),
              .lse = data(results[1])};
    }
    return {.q = data(operands[1]),
            .k = data(operands[2]),
            .v = data(operands[3]),
            .o = data(operands[4]),
            .lse = data(operands[5]),
            .grad = data(operands[0]),
            .dq = data(results[0]),
            .dk = data(results[1]),
            .dv = data(results[2])};
  }

  // The working memory moves while other kernels are prepared.
  void bind(std::byte* workspace) {
    AttentionPointers pointers = pointers_;
    if (copies_) pointers.lse = workspace;
    pointers.dots = workspace + dots_offset_;
    packs_.clear();
    for (const CudnnPart& first : cudnn_parts(whole_, part_)) {
      std::vector<BoundSlot> slots = bind_part(part_, pointers, first);
      values_.bind(part_, slots);
      packs_.push_back(make_variant_pack(handle_.library(), slots, workspace + plan_offset_));
    }
    bound_to_ = workspace;
  }

  // Keys without a query have a gradient of 0.
  void clear_unseen(std::byte* grad) {
    if (whole_.keys == whole_.all_keys) return;
    const int64_t row = whole_.kv_heads * whole_.head_dim * byte_size(DType::kBF16);
    TPC_CUDA(cudaMemset2DAsync(grad + whole_.keys * row, static_cast<size_t>(whole_.all_keys * row), 0,
                               static_cast<size_t>((whole_.all_keys - whole_.keys) * row),
                               static_cast<size_t>(whole_.batch), queue_.stream()));
  }

  CudnnAttention whole_;
  CudnnAttention part_;
  const ExecutionPlan& plan_;
  const Handle& handle_;
  DeviceQueue& queue_;
  AttentionPointers pointers_;
  HostValues values_;
  std::optional<StatisticsCopies> copies_;
  int64_t dots_offset_ = 0;
  int64_t plan_offset_ = 0;
  std::byte* bound_to_ = nullptr;
  std::vector<Descriptor> packs_;
};

class InstalledCudnn final : public CudnnAttentions {
 public:
  explicit InstalledCudnn(DeviceQueue& queue) : queue_(queue) {}

  std::unique_ptr<Kernel> prepare(const LocalStep& step) override {
    std::optional<CudnnAttention> whole = cudnn_attention(step);
    if (!whole) return nullptr;
    const Library* library = find_library().library;
    if (library == nullptr) return nullptr;
    if (!handle_) handle_.emplace(*library, queue_.stream());
    CudnnAttention part = part_at_once(*whole);
    auto known = plans_.find(part);
    if (known == plans_.end()) {
      PlanChoice choice = plan_attention(*library, part, PlanDevice(handle_->get()), kMostWorkspace);
      known = plans_.emplace(part, std::move(choice.plan)).first;
    }
    if (!known->second) return nullptr;
    return std::make_unique<AttentionKernel>(step, *whole, part, *known->second, *handle_, queue_);
  }

 private:
  DeviceQueue& queue_;
  std::optional<Handle> handle_;
  std::map<CudnnAttention, std::optional<ExecutionPlan>> plans_;  // nothing where it was refused
};

}  // namespace
}  // namespace tpc::cuda::cudnn

namespace tpc::cuda {

std::unique_ptr<CudnnAttentions> make_cudnn_attentions(DeviceQueue& queue) {
  return std::make_unique<cudnn::InstalledCudnn>(queue);
}

}  // namespace tpc::cuda
