#include "tests/fake_cuda/failures.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fake_cuda/error_names.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

struct Plan {
  std::string call;
  int rank = -1;
  int number = -1;
  std::string outcome;
};

std::vector<std::string> parts(std::string_view text, char separator) {
  std::vector<std::string> found;
  while (true) {
    size_t end = text.find(separator);
    found.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

// "rank1" with prefix "rank" is 1.
std::optional<int> numbered(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<Plan> read_plans(const std::string& text) {
  std::vector<Plan> plans;
  if (text.empty()) return plans;
  for (const std::string& one : parts(text, ';')) {
    std::vector<std::string> fields = parts(one, ':');
    Plan plan;
    plan.call = fields[0];
    size_t i = 1;
    if (i < fields.size()) {
      if (std::optional<int> rank = numbered(fields[i], "rank")) plan.rank = *rank, ++i;
    }
    if (i < fields.size()) {
      if (std::optional<int> call = numbered(fields[i], "call")) plan.number = *call, ++i;
    }
    if (i < fields.size()) plan.outcome = fields[i++];
    bool is_call = plan.call.starts_with("cuda") || plan.call.starts_with("cublas") || plan.call.starts_with("nccl");
    if (i < fields.size() || !is_call) die("FAKE_CUDA_FAIL: \"{}\" is not call:rankR:callN:outcome", one);
    plans.push_back(std::move(plan));
  }
  return plans;
}

[[noreturn]] void hang() {
  while (true) pause();
}

}  // namespace

std::optional<Failure> planted_failure(const char* call, int rank) {
  const std::string& text = machine().settings.failures;
  if (text.empty()) return std::nullopt;
  std::string outcome;
  {
    std::lock_guard lock(machine().mutex);
    int number = ++machine().num_calls[{call, rank}];
    bool found = false;
    for (const Plan& plan : read_plans(text)) {
      if (plan.call != call || (plan.rank >= 0 && plan.rank != rank)) continue;
      if (plan.number >= 0 && plan.number != number) continue;
      found = true;
      outcome = plan.outcome;
    }
    if (!found) return std::nullopt;
  }
  if (outcome == "hang") hang();
  if (outcome == "kill") kill(getpid(), SIGKILL);
  if (outcome == "stall") return Failure{FailureKind::kStall, ""};
  if (outcome.starts_with("async")) {
    return Failure{FailureKind::kAsync, outcome.starts_with("async=") ? outcome.substr(6) : "ncclRemoteError"};
  }
  return Failure{FailureKind::kStatus, outcome};
}

cudaError_t cuda_error(const std::string& name, cudaError_t usual) {
  if (name.empty()) return usual;
  for (const CudaErrorName& row : cuda_error_names()) {
    if (name == row.name) return row.error;
  }
  die("FAKE_CUDA_FAIL: \"{}\" is no error of CUDA", name);
}

ncclResult_t nccl_error(const std::string& name, ncclResult_t usual) {
  if (name.empty()) return usual;
  for (const NcclErrorName& row : nccl_error_names()) {
    if (name == row.name) return row.error;
  }
  die("FAKE_CUDA_FAIL: \"{}\" is no error of NCCL", name);
}

cublasStatus_t cublas_error(const std::string& name, cublasStatus_t usual) {
  if (name.empty()) return usual;
  for (cublasStatus_t status : {CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_INVALID_VALUE,
                                CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_EXECUTION_FAILED,
                                CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_NOT_SUPPORTED}) {
    if (name == cublasLtGetStatusName(status)) return status;
  }
  die("FAKE_CUDA_FAIL: \"{}\" is no status of cuBLAS", name);
}

}  // namespace fake_cuda
