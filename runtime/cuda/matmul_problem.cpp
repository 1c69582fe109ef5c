#include "runtime/cuda/matmul_problem.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "compiler/core/check.h"

#define TPC_CUBLAS(call) check_cublas((call), #call)

namespace tpc::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  TPC_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "a product of {}", to_string(dtype));
  return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasLtEpilogue_t lt_epilogue(MatmulEpilogue epilogue) {
  switch (epilogue) {
    case MatmulEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case MatmulEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulEpilogue::kBiasGelu:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case MatmulEpilogue::kBiasGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MatmulEpilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case MatmulEpilogue::kGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case MatmulEpilogue::kGeluGrad:
      return CUBLASLT_EPILOGUE_DGELU;
    case MatmulEpilogue::kGeluGradBiasGrad:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
  }
  TPC_UNREACHABLE("epilogue {}", static_cast<int>(epilogue));
}

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  TPC_CUBLAS(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value));
}

template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  TPC_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value));
}

// The largest power of two that divides the address; the library asks for no more than 256.
uint32_t alignment_of(const void* data) {
  auto address = reinterpret_cast<uintptr_t>(data) | 256U;
  return uint32_t{1} << std::countr_zero(address);
}

std::string matrix_text(const BlasMatrix& matrix, uint32_t alignment) {
  return fmt::format("{}{}x{}/{}+{}@{}{}", to_string(matrix.dtype), matrix.rows, matrix.columns, matrix.ld,
                     matrix.batch_stride, alignment, matrix.is_transposed ? "T" : "");
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::string_view text = call;
  throw DeviceError(fmt::format("{} failed: {}", text.substr(0, text.find('(')), cublasLtGetStatusString(status)));
}

MatmulProblem::Layout MatmulProblem::make_layout(const BlasMatrix& matrix, int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  TPC_CUBLAS(cublasLtMatrixLayoutCreate(&layout, data_type(matrix.dtype), static_cast<uint64_t>(matrix.rows),
                                        static_cast<uint64_t>(matrix.columns), matrix.ld));
  Layout owned(layout);
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  }
  return owned;
}

MatmulProblem::MatmulProblem(const Matmul& matmul, bool tf32, const MatmulPointers& pointers)
    : a_(make_layout(matmul.a, matmul.batch)),
      b_(make_layout(matmul.b, matmul.batch)),
      d_(make_layout(matmul.d, matmul.batch)),
      alignment_{alignment_of(pointers.a), alignment_of(pointers.b), alignment_of(pointers.d)} {
  bool is_f32 = matmul.a.dtype == DType::kF32;
  cublasComputeType_t compute = is_f32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t product = nullptr;
  TPC_CUBLAS(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F));
  product_.reset(product);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, matmul.a.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, matmul.b.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, lt_epilogue(matmul.epilogue));
  // Before the library is asked for algorithms, since it looks at their alignment.
  if (pointers.bias != nullptr) set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  if (pointers.aux != nullptr) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, pointers.aux);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, matmul.aux_ld);
  }
  form_ = fmt::format("{}x{}x{}*{} {} {} {} {} {} {}{}", matmul.m, matmul.n, matmul.k, matmul.batch,
                      matrix_text(matmul.a, alignment_[0]), matrix_text(matmul.b, alignment_[1]),
                      matrix_text(matmul.d, alignment_[2]), to_string(matmul.epilogue), alignment_of(pointers.bias),
                      alignment_of(pointers.aux), tf32 ? " tf32" : "");
}

std::vector<cublasLtMatmulAlgo_t> MatmulProblem::algorithms(cublasLtHandle_t handle, int64_t workspace,
                                                            int most) const {
  cublasLtMatmulPreference_t created = nullptr;
  TPC_CUBLAS(cublasLtMatmulPreferenceCreate(&created));
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(created);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    TPC_CUBLAS(cublasLtMatmulPreferenceSetAttribute(created, attribute, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_[0]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_[1]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_[2]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_[2]);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                                         created, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& candidate = found[static_cast<size_t>(i)];
    if (candidate.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(candidate.algo);
  }
  return algorithms;
}

void MatmulProblem::run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, const MatmulPointers& pointers,
                        void* workspace, int64_t workspace_bytes, cudaStream_t stream) const {
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  TPC_CUBLAS(cublasLtMatmul(handle, product_.get(), &kOne, pointers.a, a_.get(), pointers.b, b_.get(), &kZero,
                            pointers.d, d_.get(), pointers.d, d_.get(), &algorithm, workspace,
                            static_cast<size_t>(workspace_bytes), stream));
}

}  // namespace tpc::cuda
