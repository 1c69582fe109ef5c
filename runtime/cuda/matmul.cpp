#include "runtime/cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/core/check.h"
#include "compiler/lowering/workspace.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/kernels/strided_copy.h"
#include "runtime/cuda/matmul_problem.h"
#include "runtime/cuda/tune_matmul.h"

namespace tpc::cuda {
namespace {

constexpr int kCandidates = 16;

// A tensor of the product that is copied into the form that the product takes, or out of it.
struct Packed {
  StridedCopy copy;
  int64_t offset = 0;  // in the working memory
};

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(const FusedMatmul& product, bool tf32, DeviceQueue& queue)
      : queue_(queue), tensors_(pointers_of(product)) {
    const Matmul& matmul = product.matmul;
    a_ = pack(matmul.a);
    b_ = pack(matmul.b);
    d_ = pack(matmul.d);
    queue.reserve(packed_bytes_ + kMatmulWorkspace);
    problem_.emplace(matmul, tf32, pointers());
  }

  const MatmulProblem& problem() const { return *problem_; }
  void set_algorithm(const cublasLtMatmulAlgo_t& algorithm, cublasLtHandle_t handle) {
    algorithm_ = algorithm;
    handle_ = handle;
  }
  MatmulPointers pointers() const {
    MatmulPointers used = tensors_;
    if (a_) used.a = queue_.workspace() + a_->offset;
    if (b_) used.b = queue_.workspace() + b_->offset;
    if (d_) used.d = queue_.workspace() + d_->offset;
    return used;
  }
  std::byte* library_workspace() const { return queue_.workspace() + packed_bytes_; }

  void run(const StepContext& /*context*/) override {
    MatmulPointers used = pointers();
    if (a_) a_->copy.launch(queue_, tensors_.a, const_cast<void*>(used.a));
    if (b_) b_->copy.launch(queue_, tensors_.b, const_cast<void*>(used.b));
    problem_->run(handle_, algorithm_, used, library_workspace(), kMatmulWorkspace, queue_.stream());
    if (d_) d_->copy.launch(queue_, used.d, tensors_.d);
  }

 private:
  static MatmulPointers pointers_of(const FusedMatmul& product) {
    bool swapped = product.matmul.swapped;
    MatmulPointers pointers;
    pointers.a = swapped ? product.x.data : product.w.data;
    pointers.b = swapped ? product.w.data : product.x.data;
    pointers.d = product.d.data;
    if (product.bias) pointers.bias = product.bias->data;
    if (product.aux) pointers.aux = product.aux->data;
    return pointers;
  }

  std::optional<Packed> pack(const BlasMatrix& matrix) {
    if (!matrix.copy) return std::nullopt;
    int64_t element = byte_size(matrix.dtype);
    Packed packed{StridedCopy(matrix.copy->loop, matrix.copy->from, matrix.copy->to, element), packed_bytes_};
    packed_bytes_ += packed_matrix_bytes(matrix);
    return packed;
  }

  DeviceQueue& queue_;
  MatmulPointers tensors_;
  std::optional<Packed> a_;
  std::optional<Packed> b_;
  std::optional<Packed> d_;
  int64_t packed_bytes_ = 0;
  std::optional<MatmulProblem> problem_;
  cublasLtMatmulAlgo_t algorithm_{};
  cublasLtHandle_t handle_ = nullptr;
};

class KernelSequence final : public Kernel {
 public:
  explicit KernelSequence(std::vector<std::unique_ptr<Kernel>> kernels) : kernels_(std::move(kernels)) {}
  void run(const StepContext& context) override {
    for (auto& kernel : kernels_) kernel->run(context);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

Matmuls::Matmuls(MatmulOptions options, DeviceQueue& queue) : options_(options), queue_(queue) {
  check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
}

Matmuls::~Matmuls() { static_cast<void>(cublasLtDestroy(handle_)); }

std::unique_ptr<Kernel> Matmuls::prepare(std::span<const LocalStep> steps, const PrepareStep& prepare_step) {
  FusedSteps fused = fuse_contractions(steps);
  TPC_CHECK(fused.count == steps.size(), "{} of {} steps are products", fused.count, steps.size());
  std::vector<std::unique_ptr<Kernel>> kernels;
  for (const FusedMatmul& product : fused.matmuls) {
    kernels.push_back(prepare_one(product));
    if (kernels.back() == nullptr) break;
  }
  if (kernels.back() != nullptr) {
    return kernels.size() == 1 ? std::move(kernels[0]) : std::make_unique<KernelSequence>(std::move(kernels));
  }
  // The library has no such product: one step after the other.
  if (steps.size() == 1) {
    throw DeviceError(fmt::format("cuBLASLt has no product for \"{}\" ({})", steps[0].name,
                                  steps[0].attributes.get_string("einsum")));
  }
  kernels.clear();
  for (const LocalStep& step : steps) kernels.push_back(prepare_step(step));
  return std::make_unique<KernelSequence>(std::move(kernels));
}

// nullptr where the library cannot do it.
std::unique_ptr<Kernel> Matmuls::prepare_one(const FusedMatmul& product) {
  auto kernel = std::make_unique<MatmulKernel>(product, options_.tf32, queue_);
  const MatmulProblem& problem = kernel->problem();
  auto known = algorithms_.find(problem.form());
  if (known == algorithms_.end()) {
    std::vector<cublasLtMatmulAlgo_t> candidates =
        problem.algorithms(handle_, kMatmulWorkspace, options_.tune ? kCandidates : 1);
    if (candidates.empty()) return nullptr;
    size_t best = 0;
    if (options_.tune) {
      best = fastest(candidates.size(), queue_, [&](size_t i) {
        problem.run(handle_, candidates[i], kernel->pointers(), kernel->library_workspace(), kMatmulWorkspace,
                    queue_.stream());
      });
    }
    known = algorithms_.emplace(problem.form(), candidates[best]).first;
  }
  kernel->set_algorithm(known->second, handle_);
  return kernel;
}

}  // namespace tpc::cuda
