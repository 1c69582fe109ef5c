/// What the environment says about the machine that is faked.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace fake_cuda {

enum class DriverState { kPresent, kNone, kOld, kNewer };

struct Settings {
  uint64_t seed = 1;                           ///< FAKE_CUDA_SEED: which runnable stream goes next
  DriverState driver = DriverState::kPresent;  ///< FAKE_CUDA_DRIVER=none|old|newer
  std::vector<int> devices;                    ///< FAKE_CUDA_DEVICES=n, of them those of CUDA_VISIBLE_DEVICES
  uint64_t memory = 0;                         ///< FAKE_CUDA_MEMORY, bytes a device
  int nccl_version = 0;                        ///< FAKE_NCCL_VERSION, as in ncclGetVersion
  std::string failures;                        ///< FAKE_CUDA_FAIL, see failures.h
  std::chrono::milliseconds stuck{0};          ///< FAKE_CUDA_STUCK, seconds: how long nothing may move in a wait
  std::chrono::milliseconds remote_error{
      0};             ///< FAKE_NCCL_REMOTE_ERROR, ms from a peer's end to ncclRemoteError; never: -1
  std::string log;    ///< FAKE_CUDA_LOG: a file that every call is written to
  bool leaks = true;  ///< FAKE_CUDA_LEAKS=0: nothing is said about leaks at the end of the process
};

/// A value that is none of a variable's is the end of the process.
Settings read_settings();

}  // namespace fake_cuda
