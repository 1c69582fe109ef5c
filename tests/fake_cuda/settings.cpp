#include "tests/fake_cuda/settings.h"

#include <nccl.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kStuckSeconds = 100;
#else
constexpr int64_t kStuckSeconds = 10;
#endif

std::string text(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::optional<int64_t> whole_number(std::string_view value) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

int64_t number(const char* variable, int64_t otherwise) {
  std::string value = text(variable);
  if (value.empty()) return otherwise;
  std::optional<int64_t> found = whole_number(value);
  if (!found) die("{} is \"{}\", wanted a whole number", variable, value);
  return *found;
}

DriverState driver_state() {
  std::string value = text("FAKE_CUDA_DRIVER");
  if (value.empty()) return DriverState::kPresent;
  if (value == "none") return DriverState::kNone;
  if (value == "old") return DriverState::kOld;
  if (value == "newer") return DriverState::kNewer;
  die("FAKE_CUDA_DRIVER is \"{}\", wanted none, old or newer", value);
}

// As the driver reads it: a list of indices, cut short at the first that does not exist.
std::vector<int> visible_devices(int64_t count) {
  std::vector<int> devices;
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) {
    for (int i = 0; i < count; ++i) devices.push_back(i);
    return devices;
  }
  std::string list = text("CUDA_VISIBLE_DEVICES");
  std::string_view rest = list;
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(one.size() == rest.size() ? rest.size() : one.size() + 1);
    std::optional<int64_t> index = whole_number(one);
    if (!index || *index < 0 || *index >= count) break;
    devices.push_back(static_cast<int>(*index));
  }
  return devices;
}

std::chrono::milliseconds remote_error() {
  if (text("FAKE_NCCL_REMOTE_ERROR") == "never") return std::chrono::milliseconds(-1);
  return std::chrono::milliseconds(number("FAKE_NCCL_REMOTE_ERROR", 300));
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.seed = static_cast<uint64_t>(number("FAKE_CUDA_SEED", 1));
  settings.driver = driver_state();
  settings.devices = visible_devices(number("FAKE_CUDA_DEVICES", 8));
  settings.memory = static_cast<uint64_t>(number("FAKE_CUDA_MEMORY", int64_t{4} << 30));
  settings.nccl_version = static_cast<int>(number("FAKE_NCCL_VERSION", NCCL_VERSION_CODE));
  settings.failures = text("FAKE_CUDA_FAIL");
  settings.stuck = std::chrono::seconds(number("FAKE_CUDA_STUCK", kStuckSeconds));
  settings.remote_error = remote_error();
  settings.log = text("FAKE_CUDA_LOG");
  settings.leaks = number("FAKE_CUDA_LEAKS", 1) != 0;
  return settings;
}

}  // namespace fake_cuda
