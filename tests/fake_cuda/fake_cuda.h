/// A test double of the CUDA runtime, of four functions of cuBLASLt and of NCCL, for machines without a GPU: the same
/// symbols, linked in front of the real libcublasLt. Programs need not include this; tests do. docs/testing-cuda.md
/// tells what is checked and which environment variables are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fake_cuda {

/// A place in memory, as a message or a log tells it.
struct Place {
  int device = -1;      ///< -1: host memory
  int allocation = 0;   ///< number from 1 in the order of allocation; 0 for pageable host memory
  uint64_t offset = 0;  ///< bytes
  bool operator==(const Place&) const = default;
};

/// One call that issued work.
struct Call {
  int rank = 0;  ///< of the first communicator made on the device; the device before there is one
  int device = 0;
  int stream = 0;         ///< number from 1 in the order of creation on the device; 0 where there is none
  std::string name;       ///< "ncclAllReduce", "kernel softmax", "cudaMemcpyAsync"
  std::string arguments;  ///< "f32 sum", "256x64x32 f32 TN BIAS"
  uint64_t bytes = 0;     ///< that it reads (collectives: count times size of an element)
  std::vector<Place> places;
};

/// From now on calls are kept (and with FAKE_CUDA_LOG written to a file when the process ends).
void keep_log();
/// All calls kept, in the order of the ranks, then of the calls.
std::vector<Call> log();
/// One line: "rank 0 stream 1 ncclAllReduce f32 sum 4,096 bytes device0:alloc2+256 device0:alloc2+256".
std::string to_string(const Call& call);

/// What was made and never released: "allocation 3 of device 0 (4,096 bytes, cudaMalloc)"; and work that nobody waited
/// for. Bytes written beside an allocation end the process.
std::vector<std::string> find_leaks();
/// Dies, naming the leaks, if there are any. Called at the end of a process that ends well.
void check_leaks();

/// Forgets everything, and reads the environment again. No other thread may be inside a call, no handle is used later.
void reset();

}  // namespace fake_cuda
