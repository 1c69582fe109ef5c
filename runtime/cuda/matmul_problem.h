/// A product in cuBLASLt's own terms.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/lowering/matmul.h"

namespace tpc::cuda {

/// Throws DeviceError that names the call.
void check_cublas(cublasStatus_t status, const char* call);

/// Addresses that a product works on; those that it has not are nullptr.
struct MatmulPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  void* bias = nullptr;  ///< read, or written where the epilogue sums a bias' gradient
  void* aux = nullptr;   ///< read or written, as the epilogue says
};

/// Descriptors, made once. f32 and bf16 in and out; always f32 sums.
class MatmulProblem {
 public:
  MatmulProblem(const Matmul& matmul, bool tf32, const MatmulPointers& pointers);

  /// The library's candidates that need at most `workspace` bytes, best guess first, at most `most`; none when it
  /// cannot do this product.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle, int64_t workspace, int most) const;

  /// Issues the product.
  void run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const MatmulPointers& pointers,
           void* workspace, int64_t workspace_bytes, cudaStream_t stream) const;

  /// All that an algorithm is chosen by: sizes, types, leading dimensions, alignment, epilogue.
  const std::string& form() const { return form_; }

 private:
  template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
  struct Destroy {
    void operator()(Handle handle) const { static_cast<void>(kDestroy(handle)); }
  };
  template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, kDestroy>>;
  using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  static Layout make_layout(const BlasMatrix& matrix, int64_t batch);

  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> product_;
  Layout a_;
  Layout b_;
  Layout d_;
  uint32_t alignment_[3] = {};  // of a, b and d, in bytes
  std::string form_;
};

}  // namespace tpc::cuda
