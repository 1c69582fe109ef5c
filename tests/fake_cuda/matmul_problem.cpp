#include "tests/fake_cuda/matmul_problem.h"

#include <fmt/format.h>

#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

// cuBLASLt documents these for the auxiliary buffer of GELU.
constexpr int64_t kAuxLdUnit = 8;
constexpr uintptr_t kAuxAlignment = 16;

template <class T, class Descriptor, class Attribute, class Get>
T attribute(Descriptor descriptor, Attribute which, Get get) {
  T value{};
  size_t written = 0;
  if (get(descriptor, which, &value, sizeof value, &written) != CUBLAS_STATUS_SUCCESS) {
    die("attribute {} of a cuBLASLt descriptor cannot be read: was it destroyed?", static_cast<int>(which));
  }
  return value;
}

Matrix read_matrix(cublasLtMatrixLayout_t layout) {
  auto get = cublasLtMatrixLayoutGetAttribute;
  Matrix matrix;
  matrix.type = static_cast<cudaDataType_t>(attribute<uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, get));
  matrix.order = static_cast<cublasLtOrder_t>(attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, get));
  matrix.rows = static_cast<int64_t>(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, get));
  matrix.cols = static_cast<int64_t>(attribute<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS, get));
  matrix.ld = attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD, get);
  matrix.stride = attribute<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, get);
  matrix.batch = attribute<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, get);
  return matrix;
}

cudaDataType_t type_or(int32_t type, cudaDataType_t otherwise) {
  return type < 0 ? otherwise : static_cast<cudaDataType_t>(type);
}

std::string type_name(cudaDataType_t type) {
  return type == CUDA_R_32F ? "f32" : type == CUDA_R_16BF ? "bf16" : fmt::format("type {}", static_cast<int>(type));
}

std::string_view epilogue_name(cublasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return "";
    case CUBLASLT_EPILOGUE_RELU:
      return "RELU";
    case CUBLASLT_EPILOGUE_BIAS:
      return "BIAS";
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return "RELU_BIAS";
    case CUBLASLT_EPILOGUE_GELU:
      return "GELU";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return "GELU_BIAS";
    case CUBLASLT_EPILOGUE_GELU_AUX:
      return "GELU_AUX";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "GELU_AUX_BIAS";
    case CUBLASLT_EPILOGUE_DGELU:
      return "DGELU";
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
      return "DGELU_BGRAD";
    case CUBLASLT_EPILOGUE_BGRADA:
      return "BGRADA";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "BGRADB";
    default:
      return "unknown";
  }
}

struct Rule {
  bool broken;
  cublasStatus_t status;
  std::string why;
};

cublasStatus_t check_matrix(const char* name, const Matrix& x, const MatmulProblem& p, std::string& why) {
  const Rule rules[] = {
      {x.order != CUBLASLT_ORDER_COL, CUBLAS_STATUS_NOT_SUPPORTED,
       fmt::format("{} is not column-major, which few algorithms and no epilogue take", name)},
      {x.type != CUDA_R_32F && x.type != CUDA_R_16BF, CUBLAS_STATUS_NOT_SUPPORTED,
       fmt::format("{} is of {}; the fake knows f32 and bf16", name, type_name(x.type))},
      {x.rows <= 0 || x.cols <= 0, CUBLAS_STATUS_INVALID_VALUE, fmt::format("{} is {}x{}", name, x.rows, x.cols)},
      {x.ld < x.rows, CUBLAS_STATUS_INVALID_VALUE,
       fmt::format("{} has leading dimension {} and {} rows", name, x.ld, x.rows)},
      {x.batch < 1 || x.batch != p.d.batch, CUBLAS_STATUS_INVALID_VALUE,
       fmt::format("{} is a batch of {}, D one of {}", name, x.batch, p.d.batch)},
  };
  for (const Rule& rule : rules) {
    if (!rule.broken) continue;
    why = rule.why;
    return rule.status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check(const MatmulProblem& p, std::string& why) {
  const Matrix* matrices[] = {&p.a, &p.b, &p.c, &p.d};
  const char* names[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i) {
    if (cublasStatus_t status = check_matrix(names[i], *matrices[i], p, why); status != CUBLAS_STATUS_SUCCESS) {
      return status;
    }
  }
  int64_t rows_a = p.transpose_a ? p.a.cols : p.a.rows;
  int64_t rows_b = p.transpose_b ? p.b.cols : p.b.rows;
  int64_t cols_b = p.transpose_b ? p.b.rows : p.b.cols;
  bool aux = reads_aux(p.epilogue) || writes_aux(p.epilogue);
  bool sums_of_operand = p.epilogue == CUBLASLT_EPILOGUE_BGRADA || p.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  bool needs_bias = has_bias_input(p.epilogue) || has_bias_output(p.epilogue);
  const Rule rules[] = {
      {rows_a != p.m || cols_b != p.n || rows_b != p.k, CUBLAS_STATUS_INVALID_VALUE,
       fmt::format("op(A) is {}x{}, op(B) {}x{}, D {}x{}", rows_a, p.k, rows_b, cols_b, p.m, p.n)},
      {p.c.rows != p.m || p.c.cols != p.n, CUBLAS_STATUS_INVALID_VALUE,
       fmt::format("C is {}x{}, D {}x{}", p.c.rows, p.c.cols, p.m, p.n)},
      {p.a.type != p.b.type, CUBLAS_STATUS_NOT_SUPPORTED, "A and B are of different types"},
      {p.c.type != p.d.type, CUBLAS_STATUS_NOT_SUPPORTED, "C and D are of different types"},
      {p.a.type == CUDA_R_32F && p.d.type != CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED, "f32 operands make f32"},
      {p.compute != CUBLAS_COMPUTE_32F && p.compute != CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_STATUS_NOT_SUPPORTED,
       "the fake computes in f32 (CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32)"},
      {p.scale != CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED, "alpha and beta are f32 where the arithmetic is"},
      {epilogue_name(p.epilogue) == "unknown", CUBLAS_STATUS_NOT_SUPPORTED,
       fmt::format("the fake knows no epilogue {}", static_cast<int>(p.epilogue))},
      {p.d.batch > 1 && p.d.stride < (p.n - 1) * p.d.ld + p.m, CUBLAS_STATUS_INVALID_VALUE,
       fmt::format("the {} matrices of D overlap: stride {}", p.d.batch, p.d.stride)},
      {needs_bias && p.bias == nullptr, CUBLAS_STATUS_INVALID_VALUE, "the epilogue wants a bias pointer"},
      {needs_bias && p.bias_type != p.d.type && p.bias_type != CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED,
       "the bias is of D's type or f32"},
      {sums_of_operand && p.d.batch > 1, CUBLAS_STATUS_NOT_SUPPORTED, "BGRADA and BGRADB take no batch"},
      {aux && p.aux == nullptr, CUBLAS_STATUS_INVALID_VALUE, "the epilogue wants an auxiliary pointer"},
      {aux && reinterpret_cast<uintptr_t>(p.aux) % kAuxAlignment != 0, CUBLAS_STATUS_NOT_SUPPORTED,
       fmt::format("the auxiliary pointer is not aligned to {} bytes", kAuxAlignment)},
      {aux && (p.aux_ld < p.m || p.aux_ld % kAuxLdUnit != 0), CUBLAS_STATUS_NOT_SUPPORTED,
       fmt::format("the auxiliary leading dimension {} is less than {} or no multiple of {}", p.aux_ld, p.m,
                   kAuxLdUnit)},
      {aux && p.aux_type != p.d.type, CUBLAS_STATUS_NOT_SUPPORTED, "the auxiliary buffer is of D's type"},
  };
  for (const Rule& rule : rules) {
    if (!rule.broken) continue;
    why = rule.why;
    return rule.status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

uint64_t Matrix::span_bytes() const {
  int64_t one = (cols - 1) * ld + rows;
  return static_cast<uint64_t>((batch - 1) * stride + one) * static_cast<uint64_t>(size_of(type));
}

std::string MatmulProblem::to_string() const {
  std::string text = fmt::format("{}x{}x{} {}", m, n, k, type_name(a.type));
  if (d.type != a.type) text += " to " + type_name(d.type);
  text += fmt::format(" {}{}", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N');
  if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) text += fmt::format(" {}", epilogue_name(epilogue));
  if (d.batch > 1) text += fmt::format(", {} at a time", d.batch);
  return text;
}

uint64_t MatmulProblem::signature() const {
  uint64_t hash = 0xcbf29ce484222325;
  auto add = [&](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3; };
  for (const Matrix* x : {&a, &b, &c, &d}) {
    add(x->type), add(x->rows), add(x->cols), add(x->ld), add(x->stride), add(x->batch);
  }
  add(transpose_a), add(transpose_b), add(compute), add(epilogue), add(bias_type);
  return hash;
}

bool has_bias_input(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_GELU_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool has_bias_output(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD || epilogue == CUBLASLT_EPILOGUE_BGRADA ||
         epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

bool reads_aux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

bool writes_aux(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

int64_t size_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

cublasStatus_t read_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, MatmulProblem& p, std::string& why) {
  p.a = read_matrix(a);
  p.b = read_matrix(b);
  p.c = read_matrix(c);
  p.d = read_matrix(d);
  auto get = cublasLtMatmulDescGetAttribute;
  auto whole = [&](cublasLtMatmulDescAttributes_t which) { return attribute<int32_t>(operation, which, get); };
  auto wide = [&](cublasLtMatmulDescAttributes_t which) { return attribute<int64_t>(operation, which, get); };
  auto pointer = [&](cublasLtMatmulDescAttributes_t which) { return attribute<void*>(operation, which, get); };
  p.transpose_a = whole(CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_N;
  p.transpose_b = whole(CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N;
  p.m = p.d.rows;
  p.n = p.d.cols;
  p.k = p.transpose_a ? p.a.rows : p.a.cols;
  p.compute = static_cast<cublasComputeType_t>(whole(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE));
  p.scale = static_cast<cudaDataType_t>(whole(CUBLASLT_MATMUL_DESC_SCALE_TYPE));
  int pointer_mode = whole(CUBLASLT_MATMUL_DESC_POINTER_MODE);
  p.device_scalars = pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  p.epilogue = static_cast<cublasLtEpilogue_t>(whole(CUBLASLT_MATMUL_DESC_EPILOGUE));
  p.bias = pointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  p.bias_type = type_or(whole(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE), p.d.type);
  p.bias_stride = wide(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
  p.aux = pointer(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  p.aux_type = type_or(whole(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE), p.d.type);
  p.aux_ld = wide(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  p.aux_stride = wide(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
  if (pointer_mode != CUBLASLT_POINTER_MODE_HOST && pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) {
    why = "alpha and beta are vectors";
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return check(p, why);
}

}  // namespace fake_cuda
