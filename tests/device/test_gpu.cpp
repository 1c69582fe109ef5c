#include "tests/device/test_gpu.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/find_devices.h"

namespace tpc::testing {
namespace {

struct Found {
  int count = 0;
  std::string missing;
};

Found find() {
  try {
    Found found{cuda::find_devices(), ""};
    for (int device = 0; device < found.count; ++device) cuda::require_usable(device);
    return found;
  } catch (const DeviceError& error) {
    return {0, error.what()};
  }
}

}  // namespace

std::string why_no_gpus(int count) {
  static const Found found = find();
  if (!found.missing.empty()) return found.missing;
  if (found.count < count) return fmt::format("needs {} GPUs, {} visible", count, found.count);
  return "";
}

bool has_gpus(int count) {
  const std::string why = why_no_gpus(count);
  if (why.empty()) return true;
  MESSAGE("skipped: " << why);
  return false;
}

}  // namespace tpc::testing
