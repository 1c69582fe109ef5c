/// Calls that issue work, for tests that compare them with what a plan says.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace fake_cuda {

/// `pointers`: what the call reads and writes, in the order of its arguments.
void log_call(cudaStream_t stream, const std::string& name, const std::string& arguments, uint64_t bytes,
              std::initializer_list<const void*> pointers);

/// Writes the calls to Settings::log, if that is set.
void write_log();

}  // namespace fake_cuda
