#include "tests/fake_cuda/matmul_run.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace fake_cuda {
namespace {

float load(cudaDataType_t type, const void* data, int64_t index) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[index]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
}

void store(cudaDataType_t type, void* data, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
  }
}

// The tanh form, the only one that cuBLASLt has.
constexpr float kSqrtTwoOverPi = 0.7978845608F;
constexpr float kCubic = 0.044715F;

float gelu(float x) { return 0.5F * x * (1 + std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x))); }

float gelu_slope(float x) {
  float t = std::tanh(kSqrtTwoOverPi * (x + kCubic * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * kCubic * x * x);
}

bool is_relu(cublasLtEpilogue_t e) { return e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS; }

bool is_gelu(cublasLtEpilogue_t e) {
  return e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS || writes_aux(e);
}

// op(X) of matrix `q` of the batch, column after column.
std::vector<float> dense(const Matrix& x, const void* data, int q, bool transpose) {
  std::vector<float> result(static_cast<size_t>(x.rows * x.cols));
  for (int64_t col = 0; col < x.cols; ++col) {
    for (int64_t row = 0; row < x.rows; ++row) {
      float value = load(x.type, data, q * x.stride + col * x.ld + row);
      int64_t at = transpose ? row * x.cols + col : col * x.rows + row;
      result[static_cast<size_t>(at)] = value;
    }
  }
  return result;
}

struct Epilogue {
  const MatmulProblem& p;
  int q;

  float apply(float value, int64_t row, int64_t col) const {
    if (has_bias_input(p.epilogue)) value += load(p.bias_type, p.bias, q * p.bias_stride + row);
    int64_t aux = q * p.aux_stride + col * p.aux_ld + row;
    if (writes_aux(p.epilogue)) store(p.aux_type, p.aux, aux, value);
    if (is_gelu(p.epilogue)) value = gelu(value);
    if (is_relu(p.epilogue)) value = std::max(value, 0.0F);
    if (reads_aux(p.epilogue)) value *= gelu_slope(load(p.aux_type, p.aux, aux));
    return value;
  }

  void write_sums(const std::vector<float>& sums) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      store(p.bias_type, p.bias, q * p.bias_stride + static_cast<int64_t>(i), sums[i]);
    }
  }
};

// Sums over k of op(A)'s rows (a: column after column) or op(B)'s columns (b: likewise).
std::vector<float> operand_sums(const MatmulProblem& p, const std::vector<float>& a, const std::vector<float>& b) {
  bool of_a = p.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  std::vector<float> sums(static_cast<size_t>(of_a ? p.m : p.n), 0.0F);
  for (int64_t l = 0; l < p.k; ++l) {
    for (size_t i = 0; i < sums.size(); ++i) {
      auto at = static_cast<int64_t>(i);
      sums[i] += of_a ? a[static_cast<size_t>(l * p.m + at)] : b[static_cast<size_t>(at * p.k + l)];
    }
  }
  return sums;
}

}  // namespace

void run_matmul(const MatmulProblem& p, const MatmulOperands& operands, float alpha, float beta) {
  for (int q = 0; q < p.d.batch; ++q) {
    std::vector<float> a = dense(p.a, operands.a, q, p.transpose_a);
    std::vector<float> b = dense(p.b, operands.b, q, p.transpose_b);
    Epilogue epilogue{p, q};
    std::vector<float> column(static_cast<size_t>(p.m));
    std::vector<float> sums(static_cast<size_t>(p.m), 0.0F);
    for (int64_t col = 0; col < p.n; ++col) {
      std::fill(column.begin(), column.end(), 0.0F);
      for (int64_t l = 0; l < p.k; ++l) {
        float factor = b[static_cast<size_t>(col * p.k + l)];
        const float* from = &a[static_cast<size_t>(l * p.m)];
        for (int64_t row = 0; row < p.m; ++row) column[static_cast<size_t>(row)] += from[row] * factor;
      }
      for (int64_t row = 0; row < p.m; ++row) {
        float value = alpha * column[static_cast<size_t>(row)];
        if (beta != 0) value += beta * load(p.c.type, operands.c, q * p.c.stride + col * p.c.ld + row);
        value = epilogue.apply(value, row, col);
        sums[static_cast<size_t>(row)] += value;
        store(p.d.type, operands.d, q * p.d.stride + col * p.d.ld + row, value);
      }
    }
    if (p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) epilogue.write_sums(sums);
    if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA || p.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      epilogue.write_sums(operand_sums(p, a, b));
    }
  }
}

}  // namespace fake_cuda
