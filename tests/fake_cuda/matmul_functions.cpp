// The four functions of cuBLASLt that need a GPU, and one that checks an algorithm. All others are the real library's.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/matmul_run.h"
#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

constexpr uint64_t kMagic = 0x66616b65'616c676f;
constexpr uintptr_t kWorkspaceAlignment = 256;

// What lies in the opaque words of an algorithm.
struct Algorithm {
  uint64_t magic = kMagic;
  uint64_t signature = 0;      ///< of the problem that it was chosen for
  uint64_t workspace = 0;      ///< bytes
  uint32_t alignment[4] = {};  ///< of A, B, C and D, as the preference said; bytes
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Algorithm read(const cublasLtMatmulAlgo_t& opaque) {
  Algorithm algorithm;
  std::memcpy(static_cast<void*>(&algorithm), &opaque, sizeof algorithm);
  if (algorithm.magic != kMagic) die("cublasLtMatmul: the algorithm was not made by cublasLtMatmulAlgoGetHeuristic");
  return algorithm;
}

template <class T>
T preferred(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which) {
  T value{};
  size_t written = 0;
  if (cublasLtMatmulPreferenceGetAttribute(preference, which, &value, sizeof value, &written) !=
      CUBLAS_STATUS_SUCCESS) {
    die("attribute {} of a cuBLASLt preference cannot be read", static_cast<int>(which));
  }
  return value;
}

// Status of a call whose own part is done; a status that is none is told, since cuBLAS gives no reasons.
cublasStatus_t told(const char* call, cublasStatus_t status, const std::string& why) {
  if (status != CUBLAS_STATUS_SUCCESS) say(fmt::format("{}: {}", call, why));
  return status;
}

cublasStatus_t before(const char* call) {
  if (driver_error() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  std::optional<Failure> failure = planted_failure(call, this_device().rank);
  return failure ? cublas_error(failure->status, CUBLAS_STATUS_EXECUTION_FAILED) : CUBLAS_STATUS_SUCCESS;
}

bool overlap(const void* a, uint64_t bytes_a, const void* b, uint64_t bytes_b) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  return x < y + bytes_b && y < x + bytes_a;
}

void check_operands(const MatmulProblem& p, const MatmulOperands& x, bool reads_c, int device) {
  const char* call = "cublasLtMatmul";
  check_device_range(call, "A", x.a, p.a.span_bytes(), device);
  check_device_range(call, "B", x.b, p.b.span_bytes(), device);
  if (reads_c) check_device_range(call, "C", x.c, p.c.span_bytes(), device);
  check_device_range(call, "D", x.d, p.d.span_bytes(), device);
  if (overlap(x.a, p.a.span_bytes(), x.d, p.d.span_bytes()) || overlap(x.b, p.b.span_bytes(), x.d, p.d.span_bytes())) {
    die("{}: D lies over A or B ({})", call, p.to_string());
  }
  if (reads_c && x.c != x.d && overlap(x.c, p.c.span_bytes(), x.d, p.d.span_bytes())) {
    die("{}: D lies over a part of C ({})", call, p.to_string());
  }
  if (reads_c && x.c == x.d && (p.c.ld != p.d.ld || p.c.stride != p.d.stride)) {
    die("{}: C and D are one matrix with two layouts ({})", call, p.to_string());
  }
  int64_t batches = p.d.batch - 1;
  if (has_bias_input(p.epilogue) || has_bias_output(p.epilogue)) {
    int64_t one = p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m;
    int64_t bytes = (batches * p.bias_stride + one) * size_of(p.bias_type);
    check_device_range(call, "the bias", p.bias, static_cast<uint64_t>(bytes), device);
  }
  if (reads_aux(p.epilogue) || writes_aux(p.epilogue)) {
    int64_t bytes = (batches * p.aux_stride + (p.n - 1) * p.aux_ld + p.m) * size_of(p.aux_type);
    check_device_range(call, "the auxiliary buffer", p.aux, static_cast<uint64_t>(bytes), device);
  }
}

cublasStatus_t check_algorithm(const Algorithm& algorithm, const MatmulProblem& p, const MatmulOperands& x,
                               bool reads_c, uint64_t workspace, std::string& why) {
  if (algorithm.signature != p.signature()) {
    why = fmt::format("the algorithm was chosen for another problem than {}", p.to_string());
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (algorithm.workspace > workspace) {
    why = fmt::format("the algorithm wants {} bytes of workspace and gets {}", algorithm.workspace, workspace);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* pointers[] = {x.a, x.b, reads_c ? x.c : nullptr, x.d};
  for (size_t i = 0; i < 4; ++i) {
    if (reinterpret_cast<uintptr_t>(pointers[i]) % algorithm.alignment[i] == 0) continue;
    why = fmt::format("{} is not aligned to {} bytes, as the preference of the algorithm said", "ABCD"[i],
                      algorithm.alignment[i]);
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_element_alignment(const MatmulProblem& p, const MatmulOperands& x, std::string& why) {
  for (auto [pointer, type] : {std::pair{x.a, p.a.type}, {x.b, p.b.type}, {const_cast<const void*>(x.d), p.d.type}}) {
    if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(size_of(type)) == 0) continue;
    why = "an operand is not aligned to its elements";
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (cublasStatus_t status = before("cublasLtCreate"); status != CUBLAS_STATUS_SUCCESS) return status;
  std::lock_guard lock(machine().mutex);
  ++machine().num_matmul_handles;
  static char any;
  *handle = reinterpret_cast<cublasLtHandle_t>(&any);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t /*handle*/) {
  std::unique_lock lock(machine().mutex);
  if (--machine().num_matmul_handles >= 0) return CUBLAS_STATUS_SUCCESS;
  lock.unlock();
  die("cublasLtDestroy: more handles than were made");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* returned) {
  const char* call = "cublasLtMatmulAlgoGetHeuristic";
  *returned = 0;
  if (cublasStatus_t status = before(call); status != CUBLAS_STATUS_SUCCESS) return status;
  MatmulProblem problem;
  std::string why;
  cublasStatus_t status = read_problem(operation, a, b, c, d, problem, why);
  if (status != CUBLAS_STATUS_SUCCESS) return told(call, status, why);

  Algorithm algorithm;
  algorithm.signature = problem.signature();
  const cublasLtMatmulPreferenceAttributes_t alignments[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (size_t i = 0; i < 4; ++i) {
    algorithm.alignment[i] = std::max(preferred<uint32_t>(preference, alignments[i]), 1U);
  }
  auto most = preferred<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  // The first one uses workspace where it may, so that what is given for it is used.
  const uint64_t workspaces[] = {std::min<uint64_t>(most, 64 << 10), 0, std::min<uint64_t>(most, 1 << 20)};
  for (uint64_t workspace : workspaces) {
    if (*returned == requested) break;
    algorithm.workspace = workspace;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  MatmulProblem problem;
  std::string why;
  cublasStatus_t status = read_problem(operation, a, b, c, d, problem, why);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm = read(*algo);
  if (algorithm.signature != problem.signature()) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  result->algo = *algo;
  result->workspaceSize = algorithm.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  const char* call = "cublasLtMatmul";
  if (cublasStatus_t status = before(call); status != CUBLAS_STATUS_SUCCESS) return status;
  check_stream(call, stream);
  MatmulProblem p;
  std::string why;
  cublasStatus_t status = read_problem(operation, a_layout, b_layout, c_layout, d_layout, p, why);
  if (status != CUBLAS_STATUS_SUCCESS) return told(call, status, why);
  // Host scalars are read now, those on the device when the work runs.
  const auto* alpha_at = static_cast<const float*>(alpha);
  const auto* beta_at = static_cast<const float*>(beta);
  float alpha_now = p.device_scalars ? 0 : *alpha_at;
  float beta_now = p.device_scalars ? 1 : *beta_at;
  bool reads_c = beta_now != 0;
  int device = stream->device->index;

  MatmulOperands operands{a, b, c, d};
  check_operands(p, operands, reads_c, device);
  uint64_t used = 0;
  status = check_element_alignment(p, operands, why);
  if (status == CUBLAS_STATUS_SUCCESS && algo != nullptr) {
    Algorithm algorithm = read(*algo);
    used = algorithm.workspace;
    status = check_algorithm(algorithm, p, operands, reads_c, workspace_bytes, why);
  }
  if (status != CUBLAS_STATUS_SUCCESS) return told(call, status, why);
  if (used > 0) {
    check_device_range(call, "the workspace", workspace, used, device);
    if (reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
      die("{}: the workspace is not aligned to {} bytes", call, kWorkspaceAlignment);
    }
  }
  uint64_t bytes = p.a.span_bytes() + p.b.span_bytes() + (reads_c ? p.c.span_bytes() : 0);
  log_call(stream, call, p.to_string(), bytes, {a, b, c, d});
  issue(call, stream, simple_work(fmt::format("matmul {}", p.to_string()), [=] {
          // What lay there is lost.
          if (used > 0) std::memset(workspace, 0xff, used);
          if (p.device_scalars) {
            run_matmul(p, operands, *alpha_at, *beta_at);
          } else {
            run_matmul(p, operands, alpha_now, beta_now);
          }
        }));
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
