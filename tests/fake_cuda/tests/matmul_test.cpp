#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/child.h"
#include "tests/fake_cuda/tests/gemm.h"

namespace fake_cuda::testing {
namespace {

// Values on the host and on the device, in f32 or bf16.
class Operand {
 public:
  Operand(cudaDataType_t type, size_t count, unsigned seed, cudaStream_t stream) : type_(type), values_(count) {
    std::mt19937 bits(seed);
    std::normal_distribution<float> normal;
    for (float& value : values_) value = rounded(normal(bits));
    size_t size = type == CUDA_R_32F ? 4 : 2;
    MUST(cudaMalloc(&data_, count * size));
    std::vector<__nv_bfloat16> narrow;
    for (float value : values_) narrow.push_back(__float2bfloat16_rn(value));
    const void* from = type == CUDA_R_32F ? static_cast<const void*>(values_.data()) : narrow.data();
    MUST(cudaMemcpyAsync(data_, from, count * size, cudaMemcpyHostToDevice, stream));
  }
  ~Operand() { MUST(cudaFree(data_)); }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  void* data() const { return data_; }
  double operator[](int64_t i) const { return values_[static_cast<size_t>(i)]; }
  std::vector<double> read(cudaStream_t stream) const {
    std::vector<float> wide(values_.size());
    std::vector<__nv_bfloat16> narrow(values_.size());
    bool is_wide = type_ == CUDA_R_32F;
    void* to = is_wide ? static_cast<void*>(wide.data()) : narrow.data();
    MUST(cudaMemcpyAsync(to, data_, values_.size() * (is_wide ? 4 : 2), cudaMemcpyDeviceToHost, stream));
    std::vector<double> result;
    for (size_t i = 0; i < values_.size(); ++i) result.push_back(is_wide ? wide[i] : __bfloat162float(narrow[i]));
    return result;
  }

 private:
  float rounded(float value) const {
    return type_ == CUDA_R_32F ? value : __bfloat162float(__float2bfloat16_rn(value));
  }
  cudaDataType_t type_;
  std::vector<float> values_;
  void* data_ = nullptr;
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

struct Problem {
  int64_t m, n, k;
  bool ta, tb;
  cudaDataType_t type, result;
  cublasLtEpilogue_t epilogue;
  float alpha, beta;
  int batch;
};

bool is(const Problem& p, std::initializer_list<cublasLtEpilogue_t> of) {
  for (cublasLtEpilogue_t epilogue : of) {
    if (p.epilogue == epilogue) return true;
  }
  return false;
}

void check_near(const std::vector<double>& got, const std::vector<double>& wanted, double tolerance) {
  double scale = 1, error = 0;
  for (double value : wanted) scale = std::max(scale, std::abs(value));
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) error = std::max(error, std::abs(got[i] - wanted[i]) / scale);
  CHECK(error < tolerance);
}

// In the row-major terms of gemm(): a bias runs along N, BGRADA sums B's columns over K and BGRADB A's rows.
void check_problem(cublasLtHandle_t handle, const Problem& p) {
  Stream stream;
  auto size = [&](int64_t rows, int64_t cols) { return static_cast<size_t>(rows * cols * p.batch); };
  Operand a(p.type, size(p.m, p.k), 1, stream), b(p.type, size(p.k, p.n), 2, stream),
      d(p.result, size(p.m, p.n), 3, stream);
  int64_t aux_ld = (p.n + 7) / 8 * 8;
  Operand bias(p.result, static_cast<size_t>(p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.m : p.n), 4, stream);
  Operand aux(p.result, static_cast<size_t>(aux_ld * p.m), 5, stream);
  DeviceFloats workspace(4096);
  GemmOptions options;
  options.type = p.type;
  options.result = p.result;
  options.alpha = p.alpha;
  options.beta = p.beta;
  options.epilogue = p.epilogue;
  options.bias = bias.data();
  options.aux = aux.data();
  options.aux_ld = aux_ld;
  options.batch = p.batch;
  options.workspace = workspace.data();
  options.workspace_bytes = 4096 * sizeof(float);
  MUST(gemm(handle, stream, p.m, p.n, p.k, p.ta, p.tb, a.data(), b.data(), d.data(), options));

  std::vector<double> wanted, wanted_aux(static_cast<size_t>(aux_ld * p.m)), sums(static_cast<size_t>(p.n));
  for (int64_t i = 0; i < aux_ld * p.m; ++i) wanted_aux[static_cast<size_t>(i)] = aux[i];
  for (int64_t q = 0; q < p.batch; ++q) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          double x = a[q * p.m * p.k + (p.ta ? l * p.m + i : i * p.k + l)];
          double y = b[q * p.k * p.n + (p.tb ? j * p.k + l : l * p.n + j)];
          sum += x * y;
        }
        double value = p.alpha * sum + p.beta * d[q * p.m * p.n + i * p.n + j];
        if (is(p, {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                   CUBLASLT_EPILOGUE_RELU_BIAS})) {
          value += bias[j];
        }
        auto aux_at = static_cast<size_t>(i * aux_ld + j);
        if (is(p, {CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS})) wanted_aux[aux_at] = value;
        if (is(p, {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                   CUBLASLT_EPILOGUE_GELU_AUX_BIAS})) {
          value = gelu(value);
        }
        if (is(p, {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS})) value = std::max(value, 0.0);
        if (is(p, {CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD})) value *= gelu_slope(wanted_aux[aux_at]);
        sums[static_cast<size_t>(j)] += value;
        wanted.push_back(value);
      }
    }
  }
  double tolerance = p.result == CUDA_R_16BF ? 1.0 / 256 : 1e-5;
  check_near(d.read(stream), wanted, tolerance);
  check_near(aux.read(stream), wanted_aux, tolerance);
  if (p.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) check_near(bias.read(stream), sums, tolerance);
  if (p.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    std::vector<double> of_b(static_cast<size_t>(p.n));
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t l = 0; l < p.k; ++l) of_b[static_cast<size_t>(j)] += b[p.tb ? j * p.k + l : l * p.n + j];
    }
    check_near(bias.read(stream), of_b, tolerance);
  }
  if (p.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    std::vector<double> of_a(static_cast<size_t>(p.m));
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t l = 0; l < p.k; ++l) of_a[static_cast<size_t>(i)] += a[p.ta ? l * p.m + i : i * p.k + l];
    }
    check_near(bias.read(stream), of_a, tolerance);
  }
}

}  // namespace

TEST_CASE("products are right: types, transposes, epilogues, batches, beta") {
  Environment environment({});
  cublasLtHandle_t handle = nullptr;
  MUST(cublasLtCreate(&handle));
  int number = 0;
  for (auto [type, result] :
       {std::pair{CUDA_R_32F, CUDA_R_32F}, {CUDA_R_16BF, CUDA_R_16BF}, {CUDA_R_16BF, CUDA_R_32F}}) {
    for (cublasLtEpilogue_t epilogue :
         {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
          CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
          CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD,
          CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
      for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
          // f32 rows of 5, 11 and 7 elements are 16-byte aligned at their beginning only.
          bool batched = epilogue == CUBLASLT_EPILOGUE_DEFAULT;
          bool accumulates = epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BGRADB;
          Problem p{5, 11, 7, ta, tb, type, result, epilogue, 0.5F, accumulates ? 1.0F : 0.0F, batched ? 3 : 1};
          CAPTURE(++number);
          check_problem(handle, p);
        }
      }
    }
  }
  MUST(cublasLtDestroy(handle));
}

TEST_CASE("what cuBLASLt would not take is refused") {
  Environment environment({});
  cublasLtHandle_t handle = nullptr;
  MUST(cublasLtCreate(&handle));
  Stream stream;
  DeviceFloats a(1024), b(1024), d(1024), bias(64);
  auto run = [&](const GemmOptions& options, size_t offset = 0) {
    return gemm(handle, stream, 8, 12, 4, false, false, a.data() + offset, b.data(), d.data(), options);
  };
  GemmOptions plain;
  CHECK(run(plain) == CUBLAS_STATUS_SUCCESS);
  // The algorithm was chosen for operands that begin at 16 bytes.
  CHECK(run(plain, 1) == CUBLAS_STATUS_NOT_SUPPORTED);
  GemmOptions aligned_less = plain;
  aligned_less.alignment = 4;
  CHECK(run(aligned_less, 1) == CUBLAS_STATUS_SUCCESS);

  GemmOptions bias_missing = plain;
  bias_missing.epilogue = CUBLASLT_EPILOGUE_BIAS;
  CHECK(run(bias_missing) == CUBLAS_STATUS_INVALID_VALUE);
  GemmOptions aux = plain;
  aux.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  aux.aux = d.data() + 512;
  aux.aux_ld = 16;
  CHECK(run(aux) == CUBLAS_STATUS_SUCCESS);
  // No multiple of 8, less than the rows, a pointer that is not aligned.
  aux.aux_ld = 12;
  CHECK(run(aux) == CUBLAS_STATUS_NOT_SUPPORTED);
  aux.aux_ld = 8;
  CHECK(run(aux) == CUBLAS_STATUS_NOT_SUPPORTED);
  aux.aux_ld = 16;
  aux.aux = d.data() + 513;
  CHECK(run(aux) == CUBLAS_STATUS_NOT_SUPPORTED);
  GemmOptions narrow = plain;
  narrow.result = CUDA_R_16BF;
  CHECK(run(narrow) == CUBLAS_STATUS_NOT_SUPPORTED);
  GemmOptions grouped = bias_missing;
  grouped.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  grouped.bias = bias.data();
  CHECK(run(grouped) == CUBLAS_STATUS_SUCCESS);
  grouped.batch = 2;
  CHECK(run(grouped) == CUBLAS_STATUS_NOT_SUPPORTED);
  MUST(cudaStreamSynchronize(stream));
  MUST(cublasLtDestroy(handle));
}

}  // namespace fake_cuda::testing
