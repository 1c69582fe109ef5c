/// Row-major products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace fake_cuda::testing {

struct GemmOptions {
  cudaDataType_t type = CUDA_R_32F;    ///< of A and B
  cudaDataType_t result = CUDA_R_32F;  ///< of C and D
  float alpha = 1;
  float beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  int64_t aux_ld = 0;
  int batch = 1;
  uint32_t alignment = 16;  ///< that the algorithm is chosen for
  void* workspace = nullptr;
  uint64_t workspace_bytes = 0;
};

/// D[M, N] = op(A) op(B) of row-major matrices: op(A) is M x K, op(B) K x N, and matrices of a batch lie one behind the
/// other. cuBLASLt sees the transposed product, so that a bias lies along N.
cublasStatus_t gemm(cublasLtHandle_t handle, cudaStream_t stream, int64_t m, int64_t n, int64_t k, bool transpose_a,
                    bool transpose_b, const void* a, const void* b, void* d, const GemmOptions& options = {});

}  // namespace fake_cuda::testing
