// Each misuse ends the process with its sentence.
#include <doctest/doctest.h>
#include <signal.h>

#include <functional>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/child.h"
#include "tests/fake_cuda/tests/gemm.h"
#include "tests/fake_cuda/tests/test_kernels.h"

namespace fake_cuda::testing {
namespace {

struct Misuse {
  std::string said;
  std::function<void()> run;
};

float* device_floats(size_t count) {
  float* data = nullptr;
  MUST(cudaMalloc(reinterpret_cast<void**>(&data), count * sizeof(float)));
  return data;
}

float* pinned_floats(size_t count) {
  float* data = nullptr;
  MUST(cudaMallocHost(reinterpret_cast<void**>(&data), count * sizeof(float)));
  return data;
}

void copy_to_host(float* to, const float* from, size_t count, cudaStream_t stream) {
  MUST(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
}

const std::vector<Misuse>& misuses() {
  static const std::vector<Misuse> all = {
      {"cudaMemcpyAsync: work on the NULL stream",
       [] {
         float value = 1;
         static_cast<void>(cudaMemcpyAsync(device_floats(1), &value, 4, cudaMemcpyHostToDevice, nullptr));
       }},
      {"cudaMemcpy: work on the NULL stream",
       [] {
         float value = 1;
         static_cast<void>(cudaMemcpy(device_floats(1), &value, 4, cudaMemcpyHostToDevice));
       }},
      {"a kernel's launch: work on the NULL stream",
       [] { static_cast<void>(add_scaled(device_floats(1), device_floats(1), 1, 1, nullptr)); }},
      {"host code touched device memory: byte 4 of allocation 1 of device 0 (8 bytes, cudaMalloc)",
       [] { device_floats(2)[1] = 1; }},
      {"cudaFree of byte 0 of allocation 1 of device 0 (4 bytes, cudaMalloc, released): it is released twice",
       [] {
         float* data = device_floats(1);
         MUST(cudaFree(data));
         static_cast<void>(cudaFree(data));
       }},
      {"cudaFree of byte 4 of allocation 1 of device 0 (8 bytes, cudaMalloc), which is not what was allocated",
       [] { static_cast<void>(cudaFree(device_floats(2) + 1)); }},
      {"cudaFree of byte 0 of pinned allocation 1 (4 bytes)", [] { static_cast<void>(cudaFree(pinned_floats(1))); }},
      {"cudaFreeHost of pageable host memory",
       [] {
         float value = 0;
         static_cast<void>(cudaFreeHost(&value));
       }},
      {"touched device memory that is not its own to touch: byte 0 of allocation 1 of device 0 (4 bytes, cudaMalloc, "
       "released)",
       [] {
         Stream stream;
         float* data = device_floats(1);
         MUST(cudaFree(data));
         MUST(add_scaled(data, device_floats(1), 1, 1, stream));
         MUST(cudaStreamSynchronize(stream));
       }},
      {"cudaMemcpyAsync: the source is byte 0 of allocation 1 of device 0 (8 bytes, cudaMalloc), and 12 bytes from "
       "there "
       "do not lie in one allocation of device 0",
       [] {
         Stream stream;
         copy_to_host(pinned_floats(3), device_floats(2), 3, stream);
       }},
      {"cudaMemcpyAsync: the target is byte 0 of pinned allocation 1 (8 bytes), and 12 bytes from there leave it",
       [] {
         Stream stream;
         copy_to_host(pinned_floats(2), device_floats(3), 3, stream);
       }},
      {"cudaMemcpyAsync: the target is pageable host memory, the kind of copy says otherwise",
       [] {
         Stream stream;
         float value = 0;
         static_cast<void>(cudaMemcpyAsync(&value, pinned_floats(1), 4, cudaMemcpyHostToDevice, stream));
       }},
      {"cudaStreamSynchronize: stream 1 of device 0 was destroyed",
       [] {
         cudaStream_t stream = nullptr;
         MUST(cudaStreamCreate(&stream));
         MUST(cudaStreamDestroy(stream));
         static_cast<void>(cudaStreamSynchronize(stream));
       }},
      {"cudaStreamWaitEvent: event 1 of device 0 was destroyed",
       [] {
         Stream stream;
         cudaEvent_t event = nullptr;
         MUST(cudaEventCreate(&event));
         MUST(cudaEventDestroy(event));
         static_cast<void>(cudaStreamWaitEvent(stream, event, 0));
       }},
      {"never released:\n  allocation 1 of device 0 (12 bytes, cudaMalloc)\n  pinned allocation 1 (4 bytes)",
       [] {
         device_floats(3);
         pinned_floats(1);
       }},
      {"1 issued to stream 1 of device 0 that nobody waited for, first \"cudaMemsetAsync of 4 bytes\"",
       [] {
         Stream stream;
         MUST(cudaMemsetAsync(device_floats(1), 0, 4, stream));
       }},
      {"cublasLtMatmul: A is pageable host memory, and 64 bytes from there do not lie in one allocation of device 0",
       [] {
         Stream stream;
         std::vector<float> host(16);
         cublasLtHandle_t handle = nullptr;
         MUST(cublasLtCreate(&handle));
         gemm(handle, stream, 4, 4, 4, false, false, device_floats(16), host.data(), device_floats(16));
       }},
      {"cublasLtMatmul: D lies over A or B (4x4x4 f32 NN)",
       [] {
         Stream stream;
         cublasLtHandle_t handle = nullptr;
         MUST(cublasLtCreate(&handle));
         float* data = device_floats(64);
         gemm(handle, stream, 4, 4, 4, false, false, data, data + 16, data + 24);
       }},
      {"ncclAllReduce: sendbuff and recvbuff overlap, and not as an operation in place may",
       [] {
         ncclUniqueId id;
         MUST(ncclGetUniqueId(&id));
         ncclComm_t world = nullptr;
         MUST(ncclCommInitRank(&world, 1, id, 0));
         Stream stream;
         float* data = device_floats(3);
         static_cast<void>(ncclAllReduce(data, data + 1, 2, ncclFloat32, ncclSum, world, stream));
       }},
      {"ncclAllReduce: one communicator, and two streams in one group",
       [] {
         ncclUniqueId id;
         MUST(ncclGetUniqueId(&id));
         ncclComm_t world = nullptr;
         MUST(ncclCommInitRank(&world, 1, id, 0));
         Stream a, b;
         float* data = device_floats(1);
         MUST(ncclGroupStart());
         MUST(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, world, a));
         static_cast<void>(ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, world, b));
       }},
      {"ncclCommDestroy: communicator 1 of rank 0 of 1 on device 0 was destroyed or aborted",
       [] {
         ncclUniqueId id;
         MUST(ncclGetUniqueId(&id));
         ncclComm_t world = nullptr;
         MUST(ncclCommInitRank(&world, 1, id, 0));
         MUST(ncclCommDestroy(world));
         static_cast<void>(ncclCommDestroy(world));
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("each misuse is named") {
  for (const Misuse& misuse : misuses()) {
    CAPTURE(misuse.said);
    Ended ended = in_child({}, misuse.run);
    CHECK(ended.signal == SIGABRT);
    CHECK_MESSAGE(ended.said.find(misuse.said) != std::string::npos, ended.said);
  }
}

TEST_CASE("a kernel that writes beside its buffer is found") {
  Ended ended = in_child({}, [] {
    Stream stream;
    float* data = device_floats(3);
    MUST(overrun(data, 3, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFree(data));
  });
  CHECK((ended.signal == SIGABRT || ended.exit_code != 0));
  bool by_release =
      ended.said.find("work wrote byte 12 of allocation 1 of device 0, which has 12 bytes") != std::string::npos;
  bool by_sanitizer = ended.said.find("AddressSanitizer: use-after-poison") != std::string::npos;
  CHECK_MESSAGE((by_release || by_sanitizer), ended.said);
}

TEST_CASE("fresh device memory and pinned memory are not numbers") {
  Environment environment({});
  Stream stream;
  DeviceFloats x(3);
  for (float value : x.read(stream)) CHECK(value != value);
  float* pinned = pinned_floats(2);
  CHECK(pinned[1] != pinned[1]);
  MUST(cudaFreeHost(pinned));
}

TEST_CASE("pageable memory is read at the call, pinned memory when the copy runs") {
  Environment environment({});
  Stream stream;
  float pageable = 1;
  float* pinned = pinned_floats(1);
  *pinned = 1;
  DeviceFloats a(1), b(1);
  MUST(cudaMemcpyAsync(a.data(), &pageable, sizeof(float), cudaMemcpyHostToDevice, stream));
  MUST(cudaMemcpyAsync(b.data(), pinned, sizeof(float), cudaMemcpyHostToDevice, stream));
  pageable = *pinned = 2;
  CHECK(a.read(stream) == std::vector<float>{1});
  CHECK(b.read(stream) == std::vector<float>{2});
  MUST(cudaFreeHost(pinned));
}

TEST_CASE("an event stands for its last record at the call of the wait") {
  for (int seed = 1; seed <= 20; ++seed) {
    Environment environment({"FAKE_CUDA_SEED=" + std::to_string(seed)});
    Stream a, b;
    Event event;
    DeviceFloats x({1}, a), y({0}, a);
    MUST(cudaStreamSynchronize(a));
    // Not recorded yet: no wait.
    MUST(cudaStreamWaitEvent(b, event, 0));
    MUST(cudaEventRecord(event, a));
    MUST(cudaStreamWaitEvent(b, event, 0));
    MUST(add_scaled(y.data(), x.data(), 1, 1, b));
    // What is recorded later is not waited for, else b would be stuck behind itself.
    Event done;
    MUST(cudaEventRecord(done, b));
    MUST(cudaStreamWaitEvent(a, done, 0));
    MUST(cudaEventRecord(event, a));
    CHECK(cudaEventQuery(event) != cudaErrorInvalidValue);
    MUST(cudaEventSynchronize(event));
    CHECK(cudaEventQuery(event) == cudaSuccess);
    CHECK(y.read(b) == std::vector<float>{1});
  }
}

}  // namespace fake_cuda::testing
