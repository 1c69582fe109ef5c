#include "tests/fake_cuda/tests/gemm.h"

#include "tests/fake_cuda/tests/check.h"

namespace fake_cuda::testing {
namespace {

cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t cols, int batch) {
  cublasLtMatrixLayout_t made = nullptr;
  MUST(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), rows));
  int64_t stride = rows * cols;
  MUST(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  MUST(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return made;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which, T value) {
  MUST(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, T value) {
  MUST(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value));
}

}  // namespace

cublasStatus_t gemm(cublasLtHandle_t handle, cudaStream_t stream, int64_t m, int64_t n, int64_t k, bool transpose_a,
                    bool transpose_b, const void* a, const void* b, void* d, const GemmOptions& o) {
  cublasLtMatmulDesc_t operation = nullptr;
  MUST(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, o.epilogue);
  if (o.bias != nullptr) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
  if (o.aux != nullptr) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, o.aux);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, o.aux_ld == 0 ? n : o.aux_ld);
  }
  cublasLtMatrixLayout_t first = layout(o.type, transpose_b ? k : n, transpose_b ? n : k, o.batch);
  cublasLtMatrixLayout_t second = layout(o.type, transpose_a ? m : k, transpose_a ? k : m, o.batch);
  cublasLtMatrixLayout_t result = layout(o.result, n, m, o.batch);
  cublasLtMatmulPreference_t preference = nullptr;
  MUST(cublasLtMatmulPreferenceCreate(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, o.workspace_bytes);
  for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference, which, o.alignment);
  }
  cublasLtMatmulHeuristicResult_t algorithm;
  int found = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, operation, first, second, result, result, preference,
                                                         1, &algorithm, &found);
  if (status == CUBLAS_STATUS_SUCCESS && found == 1) {
    status = cublasLtMatmul(handle, operation, &o.alpha, b, first, a, second, &o.beta, d, result, d, result,
                            &algorithm.algo, o.workspace, o.workspace_bytes, stream);
  }
  MUST(cublasLtMatmulPreferenceDestroy(preference));
  MUST(cublasLtMatrixLayoutDestroy(first));
  MUST(cublasLtMatrixLayoutDestroy(second));
  MUST(cublasLtMatrixLayoutDestroy(result));
  MUST(cublasLtMatmulDescDestroy(operation));
  return status;
}

}  // namespace fake_cuda::testing
