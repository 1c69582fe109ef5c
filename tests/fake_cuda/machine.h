/// Everything that is faked: the devices of this process and the handles that were given out.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_cuda/device_memory.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/handles.h"
#include "tests/fake_cuda/settings.h"

struct ncclComm;

namespace fake_cuda {

struct Device {
  Device(int index_, int physical_, const Settings& settings);

  int index;              ///< what cudaSetDevice takes
  int physical;           ///< what CUDA_VISIBLE_DEVICES calls it
  std::atomic<int> rank;  ///< of the first communicator made on it; `index` before
  DeviceMemory memory;
  std::mt19937_64 random;
  uint64_t num_draws = 0;
  std::atomic<uint64_t> num_launches{0};
  cudaError_t sticky = cudaSuccess;   ///< every later call fails with it
  std::vector<CUstream_st*> streams;  ///< destroyed ones too, while they hold work
};

struct PinnedMemory {
  uint64_t bytes = 0;
  int number = 0;
};

/// Handles stay valid memory for ever, so that the use of a destroyed one can be told.
struct Machine {
  explicit Machine(Settings settings_);
  ~Machine();

  /// The index-th visible one, made at its first use.
  Device& device(int index);
  /// The device whose memory the address is of, or nullptr.
  Device* device_of(const void* address);

  Settings settings;
  std::mutex mutex;  ///< guards all below but what runs: work runs without it
  std::vector<std::unique_ptr<Device>> devices;
  std::map<const std::byte*, PinnedMemory> pinned;
  int num_pinned = 0;
  std::deque<CUstream_st> streams;
  std::deque<CUevent_st> events;
  std::deque<CUgraph_st> graphs;
  std::deque<CUgraphExec_st> executables;
  std::vector<std::weak_ptr<Capture>> captures;
  std::vector<std::unique_ptr<ncclComm>> communicators;
  int num_matmul_handles = 0;
  std::map<std::pair<std::string, int>, int> num_calls;  ///< by name and rank, while failures are planted
  bool keeps_log = false;
  std::vector<Call> calls;
};

Machine& machine();
/// The device of this thread.
int current_device();
void set_current_device(int index);

}  // namespace fake_cuda
