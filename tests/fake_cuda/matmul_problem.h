/// One call of cublasLtMatmul, read back from its descriptors.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

namespace fake_cuda {

/// Column-major, as cuBLAS sees it.
struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t ld = 0;      ///< elements
  int64_t stride = 0;  ///< elements from one matrix of the batch to the next
  int batch = 1;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;

  /// From the first element to behind the last one of the batch.
  uint64_t span_bytes() const;
};

/// D = epilogue(alpha op(A) op(B) + beta C): m x n, k summed over.
struct MatmulProblem {
  Matrix a, b, c, d;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  bool device_scalars = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  int64_t bias_stride = 0;
  void* aux = nullptr;
  cudaDataType_t aux_type = CUDA_R_32F;
  int64_t aux_ld = 0;
  int64_t aux_stride = 0;

  /// "64x32x16 bf16 TN GELU_AUX_BIAS, 4 at a time"
  std::string to_string() const;
  /// Of what an algorithm is chosen for.
  uint64_t signature() const;
};

bool has_bias_input(cublasLtEpilogue_t epilogue);
/// The epilogue writes sums to where the bias pointer says.
bool has_bias_output(cublasLtEpilogue_t epilogue);
bool reads_aux(cublasLtEpilogue_t epilogue);
bool writes_aux(cublasLtEpilogue_t epilogue);

int64_t size_of(cudaDataType_t type);

/// The status that cuBLASLt documents for what is not allowed; then `why` says what. Success leaves it alone.
cublasStatus_t read_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, MatmulProblem& problem,
                            std::string& why);

}  // namespace fake_cuda
