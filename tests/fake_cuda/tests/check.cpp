#include "tests/fake_cuda/tests/check.h"

#include "tests/fake_cuda/report.h"

namespace fake_cuda::testing {

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) die("{} failed: {}", call, cudaGetErrorName(error));
}
void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) die("{} failed: {}", call, ncclGetErrorString(result));
}
void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) die("{} failed: {}", call, cublasLtGetStatusName(status));
}

DeviceFloats::DeviceFloats(size_t count) : count_(count) {
  MUST(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float)));
}

DeviceFloats::DeviceFloats(const std::vector<float>& values, cudaStream_t stream) : DeviceFloats(values.size()) {
  MUST(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(float), cudaMemcpyHostToDevice, stream));
}

DeviceFloats::~DeviceFloats() { MUST(cudaFree(data_)); }

std::vector<float> DeviceFloats::read(cudaStream_t stream) const {
  std::vector<float> values(count_);
  MUST(cudaMemcpyAsync(values.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  return values;
}

Stream::Stream() { MUST(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
Stream::~Stream() { MUST(cudaStreamDestroy(stream_)); }
Event::Event() { MUST(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
Event::~Event() { MUST(cudaEventDestroy(event_)); }

}  // namespace fake_cuda::testing
