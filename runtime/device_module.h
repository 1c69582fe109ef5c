/// Devices whose libraries not every machine has: a module that is loaded when it is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/rank_device.h"

namespace tpc {

/// Of one rank on one device.
struct DeviceSettings {
  int64_t rank = 0;
  int64_t world_size = 1;
  /// Which of the devices that this process sees.
  int device = 0;
  /// Of DeviceModule::make_meeting() on one rank; not needed for a world of one.
  std::string meeting;
  std::chrono::milliseconds timeout{60'000};
  /// Called while the rank waits for others: throws when the run has ended elsewhere.
  std::function<void()> check_run;
  bool tf32 = false;              ///< see MatmulOptions
  bool tune = false;              ///< see MatmulOptions
  bool use_graphs = true;         ///< see CudaOptions
  bool use_cudnn = true;          ///< see CudaOptions
  bool symmetric_memory = false;  ///< see NcclOptions
};

/// Everything here throws DeviceError that says what is missing.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  /// How many devices this process sees, at least 1.
  virtual int num_devices() = 0;
  /// Version of the library by which ranks communicate, "2.28.9".
  virtual std::string communicator_version() = 0;
  /// Bytes by which the ranks of a run find each other.
  virtual std::string make_meeting() = 0;
  /// Called in the thread of the rank; all ranks of a world at the same time.
  virtual RankDevice open(const DeviceSettings& settings) = 0;
};

/// The interface between program and module; raised with every change of what crosses it.
inline constexpr int kDeviceModuleVersion = 2;
/// The one function that a module exports, as `tpc_device_module`: nullptr when it is of another version. The module
/// lives as long as the process.
using GetDeviceModule = DeviceModule* (*)(int version);

/// Loads the module `cuda`: the file that TPC_CUDA_MODULE names, or tprun_cuda.so beside this program or in
/// ../lib/tpc from there. Throws DeviceError when there is none, or a library that it needs is missing (named).
DeviceModule& cuda_module();

}  // namespace tpc
