#include "runtime/device_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr const char* kFile = "tprun_cuda.so";

std::vector<std::filesystem::path> candidates() {
  if (const char* named = std::getenv("TPC_CUDA_MODULE"); named != nullptr && *named != '\0') return {named};
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {folder / kFile, folder / ".." / "lib" / "tpc" / kFile};
}

std::string find_file() {
  std::vector<std::filesystem::path> places = candidates();
  for (const std::filesystem::path& place : places) {
    std::error_code ignored;
    if (std::filesystem::exists(place, ignored)) return place;
  }
  std::string looked_for;
  for (const std::filesystem::path& place : places) {
    looked_for += fmt::format("{}{}", looked_for.empty() ? "" : " or ", place.lexically_normal().string());
  }
  throw DeviceError(
      fmt::format("the CUDA module is not installed (looked for {}); tprun makes it where it is built with the CUDA "
                  "toolkit. --device cpu needs none",
                  looked_for));
}

DeviceModule& load(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw DeviceError(fmt::format("the CUDA module cannot be loaded: {}", reason == nullptr ? file.c_str() : reason));
  }
  auto get = reinterpret_cast<GetDeviceModule>(dlsym(library, "tpc_device_module"));
  DeviceModule* module = get == nullptr ? nullptr : get(kDeviceModuleVersion);
  if (module == nullptr) {
    throw DeviceError(fmt::format("\"{}\" is not the CUDA module of this build of tprun", file));
  }
  return *module;
}

}  // namespace

DeviceModule& cuda_module() {
  static DeviceModule& module = load(find_file());
  return module;
}

}  // namespace tpc
