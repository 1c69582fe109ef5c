/// Calls that must succeed.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fake_cuda::testing {

void check(cudaError_t error, const char* call);
void check(ncclResult_t result, const char* call);
void check(cublasStatus_t status, const char* call);

/// Device memory with values, for as long as it lives.
class DeviceFloats {
 public:
  explicit DeviceFloats(size_t count);
  DeviceFloats(const std::vector<float>& values, cudaStream_t stream);
  ~DeviceFloats();
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  float* data() const { return data_; }
  /// Waits for the stream.
  std::vector<float> read(cudaStream_t stream) const;

 private:
  float* data_ = nullptr;
  size_t count_;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: stands for it
 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: stands for it
 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace fake_cuda::testing

#define MUST(call) ::fake_cuda::testing::check((call), #call)
