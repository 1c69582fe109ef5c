#include "runtime/shared_gpu.h"

#include <fmt/format.h>

#include <cstdlib>

namespace tpc {

std::vector<std::pair<std::string, std::string>> shared_gpu_environment(int64_t rank, bool is_one_host) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"NCCL_HOSTID", fmt::format("tpc-rank-{}", rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_RAS_ENABLE", "0"},
      {"NCCL_MAX_CTAS", "4"},
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"},
  };
  // Left to itself NCCL takes the loopback last.
  if (is_one_host) variables.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return variables;
}

void set_shared_gpu_environment(int64_t rank, bool is_one_host) {
  for (const auto& [name, value] : shared_gpu_environment(rank, is_one_host)) {
    static_cast<void>(setenv(name.c_str(), value.c_str(), /*overwrite=*/0));
  }
}

}  // namespace tpc
