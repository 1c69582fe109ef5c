#include "runtime/shared_gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

namespace tpc {
namespace {

TEST_CASE("ranks that share a GPU are hosts of their own to NCCL, and the user's variables stay") {
  auto value = [](const auto& variables, const std::string& name) {
    auto it = std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.first == name; });
    return it == variables.end() ? std::string() : it->second;
  };
  auto here = shared_gpu_environment(3, true);
  CHECK(value(here, "NCCL_HOSTID") == "tpc-rank-3");
  CHECK(value(here, "NCCL_SOCKET_IFNAME") == "lo");
  // Ranks on other hosts are not reached by the loopback.
  CHECK(value(shared_gpu_environment(3, false), "NCCL_SOCKET_IFNAME").empty());

  setenv("NCCL_NET", "mine", 1);
  unsetenv("NCCL_HOSTID");
  set_shared_gpu_environment(5, true);
  CHECK(std::string(getenv("NCCL_NET")) == "mine");
  CHECK(std::string(getenv("NCCL_HOSTID")) == "tpc-rank-5");
  for (const auto& [name, text] : here) unsetenv(name.c_str());
}

}  // namespace
}  // namespace tpc
