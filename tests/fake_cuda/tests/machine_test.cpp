// What the environment says: drivers, devices, memory, planted failures; and the log.
#include <doctest/doctest.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/child.h"
#include "tests/fake_cuda/tests/test_kernels.h"

namespace fake_cuda::testing {
namespace {

int driver_version() {
  int version = -1;
  MUST(cudaDriverGetVersion(&version));
  return version;
}

int device_count(cudaError_t wanted) {
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == wanted);
  return count;
}

}  // namespace

TEST_CASE("a machine without a driver answers as the libraries do") {
  Environment environment({"FAKE_CUDA_DRIVER=none"});
  CHECK(driver_version() == 0);
  CHECK(device_count(cudaErrorInsufficientDriver) == 0);
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 4) == cudaErrorInsufficientDriver);
  cublasLtHandle_t handle = nullptr;
  CHECK(cublasLtCreate(&handle) == CUBLAS_STATUS_NOT_INITIALIZED);
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclUnhandledCudaError);
}

TEST_CASE("drivers older and newer than the runtime") {
  {
    Environment environment({"FAKE_CUDA_DRIVER=old"});
    CHECK(driver_version() == CUDART_VERSION - 1000);
    CHECK(device_count(cudaErrorInsufficientDriver) == 0);
  }
  Environment environment({"FAKE_CUDA_DRIVER=newer"});
  CHECK(driver_version() == CUDART_VERSION + 1000);
  CHECK(device_count(cudaSuccess) == 8);
}

TEST_CASE("devices are counted and hidden") {
  {
    Environment environment({"FAKE_CUDA_DEVICES=0"});
    CHECK(device_count(cudaErrorNoDevice) == 0);
  }
  {
    Environment environment({"FAKE_CUDA_DEVICES=4", "CUDA_VISIBLE_DEVICES=2,0,9,1"});
    CHECK(device_count(cudaSuccess) == 2);
    cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    CHECK(properties.pciBusID == 3);
    CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  Environment environment({"FAKE_NCCL_VERSION=22703"});
  int version = 0;
  MUST(ncclGetVersion(&version));
  CHECK(version == 22703);
}

TEST_CASE("memory is limited") {
  Environment environment({"FAKE_CUDA_MEMORY=1000"});
  void* a = nullptr;
  void* b = nullptr;
  MUST(cudaMalloc(&a, 600));
  CHECK(cudaMalloc(&b, 600) == cudaErrorMemoryAllocation);
  size_t free = 0, total = 0;
  MUST(cudaMemGetInfo(&free, &total));
  CHECK(free == 400);
  CHECK(total == 1000);
  MUST(cudaFree(a));
  MUST(cudaMalloc(&b, 600));
  CHECK(reinterpret_cast<uintptr_t>(b) % 256 == 0);
  MUST(cudaFree(b));
}

TEST_CASE("planted failures: the third call, and a device that is lost") {
  {
    Environment environment({"FAKE_CUDA_FAIL=cudaMalloc:rank0:call3;cudaStreamCreate:cudaErrorInvalidValue"});
    void* pointers[3] = {};
    MUST(cudaMalloc(&pointers[0], 4));
    MUST(cudaMalloc(&pointers[1], 4));
    CHECK(cudaMalloc(&pointers[2], 4) == cudaErrorMemoryAllocation);
    MUST(cudaFree(pointers[0]));
    MUST(cudaFree(pointers[1]));
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreate(&stream) == cudaErrorInvalidValue);
    CHECK(cudaStreamCreate(&stream) == cudaErrorInvalidValue);
  }
  Environment environment({"FAKE_CUDA_FAIL=cudaStreamSynchronize:call1:cudaErrorIllegalAddress"});
  cudaStream_t stream = nullptr;
  MUST(cudaStreamCreate(&stream));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(cudaStreamDestroy(stream) == cudaErrorIllegalAddress);
  CHECK(std::string(cudaGetErrorString(cudaErrorIllegalAddress)) == "an illegal memory access was encountered");
}

TEST_CASE("settings that are none end the process") {
  for (std::string setting : {"FAKE_CUDA_DRIVER=some", "FAKE_CUDA_DEVICES=many",
                              "FAKE_CUDA_FAIL=cudaMalloc:soon:and:so:on", "FAKE_CUDA_FAIL=cudaMalloc:cudaErrorNone"}) {
    Ended ended = in_child({setting}, [] {
      void* pointer = nullptr;
      static_cast<void>(cudaMalloc(&pointer, 4));
    });
    CHECK_MESSAGE(ended.said.find("fake CUDA: " + setting.substr(0, setting.find('='))) == 0, ended.said);
  }
}

TEST_CASE("calls are logged with places in allocations") {
  Environment environment({});
  keep_log();
  {
    Stream stream;
    Event event;
    DeviceFloats x({1, 2, 3, 4}, stream), y(4);
    ncclUniqueId id;
    MUST(ncclGetUniqueId(&id));
    ncclComm_t world = nullptr;
    MUST(ncclCommInitRank(&world, 1, id, 0));
    MUST(ncclAllReduce(x.data() + 1, y.data() + 2, 2, ncclFloat32, ncclMax, world, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(add_scaled(y.data(), x.data(), 1, 4, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(ncclCommDestroy(world));
  }
  std::vector<std::string> lines;
  for (const Call& call : log()) lines.push_back(to_string(call));
  CHECK(lines == std::vector<std::string>{
                     "rank 0 stream 1 cudaMemcpyAsync 16 bytes device0:alloc1+0 host",
                     "rank 0 stream 1 ncclAllReduce of 2 f32 (max) 8 bytes device0:alloc1+4 device0:alloc2+8",
                     "rank 0 stream 1 cudaEventRecord event 1 0 bytes",
                     "rank 0 stream 1 kernel 0 bytes",
                 });
}

}  // namespace fake_cuda::testing
