#include <doctest/doctest.h>

#include <thread>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/child.h"
#include "tests/fake_cuda/tests/test_kernels.h"

namespace fake_cuda::testing {
namespace {

cudaError_t end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) MUST(cudaGraphDestroy(graph));
  return error;
}

cudaGraphExec_t instantiate(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphDestroy(graph));
  return executable;
}

}  // namespace

TEST_CASE("what is captured does not run, and runs at every launch") {
  Environment environment({});
  Stream stream;
  DeviceFloats x({1}, stream), y({0}, stream);
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  MUST(add_scaled(y.data(), x.data(), 1, 1, stream));
  MUST(add_scaled(x.data(), y.data(), 2, 1, stream));
  cudaGraphExec_t executable = instantiate(stream);
  CHECK(y.read(stream) == std::vector<float>{0});
  MUST(cudaGraphLaunch(executable, stream));
  CHECK(y.read(stream) == std::vector<float>{1});
  CHECK(x.read(stream) == std::vector<float>{3});
  // Launched twice without a wait, on two streams: one after the other.
  Stream other;
  MUST(cudaGraphLaunch(executable, stream));
  MUST(cudaGraphLaunch(executable, other));
  MUST(cudaDeviceSynchronize());
  CHECK(y.read(stream) == std::vector<float>{15});
  MUST(cudaGraphExecDestroy(executable));
}

TEST_CASE("branches of a graph run in any order, joins hold") {
  bool differs = false;
  std::vector<float> first;
  for (int seed = 1; seed <= 20; ++seed) {
    Environment environment({"FAKE_CUDA_SEED=" + std::to_string(seed)});
    Stream a, b;
    Event fork, join;
    DeviceFloats one({1}, a), x({0}, a), y({0}, a), sum({0}, a);
    MUST(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    MUST(cudaEventRecord(fork, a));
    MUST(cudaStreamWaitEvent(b, fork, 0));
    MUST(add_scaled(x.data(), one.data(), 1, 1, a));
    // No order is asked for between these two: y is 1 or 2.
    MUST(add_scaled(y.data(), x.data(), 1, 1, b));
    MUST(add_scaled(x.data(), one.data(), 1, 1, a));
    MUST(cudaEventRecord(join, b));
    MUST(cudaStreamWaitEvent(a, join, 0));
    MUST(add_scaled(sum.data(), y.data(), 1, 1, a));
    cudaGraphExec_t executable = instantiate(a);
    MUST(cudaGraphLaunch(executable, a));
    std::vector<float> now = y.read(a);
    CHECK(sum.read(a) == now);
    CHECK(x.read(a) == std::vector<float>{2});
    if (first.empty()) first = now;
    differs = differs || now != first;
    MUST(cudaGraphExecDestroy(executable));
  }
  CHECK(differs);
}

TEST_CASE("calls that a capture does not bear are refused, and it is invalid") {
  Environment environment({});
  Stream stream, other;
  Event event, before;
  DeviceFloats x({1}, stream);
  MUST(cudaEventRecord(before, stream));
  MUST(cudaStreamSynchronize(stream));
  void* pointer = nullptr;
  float host = 0;
  const std::vector<std::pair<cudaError_t, std::function<cudaError_t()>>> calls = {
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&pointer, 4); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(nullptr); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaMallocHost(&pointer, 4); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(stream); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(other); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(stream); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaEventQuery(before); }},
      {cudaErrorStreamCaptureUnsupported, [&] { return cudaEventSynchronize(before); }},
      {cudaErrorCapturedEvent,
       [&] {
         MUST(cudaEventRecord(event, stream));
         return cudaEventQuery(event);
       }},
      {cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(stream, before, 0); }},
      {cudaErrorStreamCaptureUnsupported,
       [&] { return cudaMemcpyAsync(x.data(), &host, sizeof host, cudaMemcpyHostToDevice, stream); }},
      {cudaErrorStreamCaptureUnsupported,
       [&] { return cudaMemcpyAsync(&host, x.data(), sizeof host, cudaMemcpyDeviceToHost, stream); }},
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(calls[i].second() == calls[i].first);
    CHECK(end_capture(stream) == cudaErrorStreamCaptureInvalidated);
    CHECK(x.read(stream) == std::vector<float>{1});
    static_cast<void>(cudaGetLastError());
  }
}

TEST_CASE("a capture of another thread forbids nothing unless it is global") {
  Environment environment({});
  Stream stream;
  for (auto [mode, wanted] : {std::pair{cudaStreamCaptureModeThreadLocal, cudaSuccess},
                              {cudaStreamCaptureModeRelaxed, cudaSuccess},
                              {cudaStreamCaptureModeGlobal, cudaErrorStreamCaptureUnsupported}}) {
    MUST(cudaStreamBeginCapture(stream, mode));
    cudaError_t got = cudaSuccess;
    std::thread([&] { got = cudaDeviceSynchronize(); }).join();
    CHECK(got == wanted);
    CHECK(end_capture(stream) == (wanted == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
  }
}

TEST_CASE("a capture ends where it began, with all streams joined") {
  Environment environment({});
  Stream a, b;
  Event fork, join;
  DeviceFloats x({0}, a);
  MUST(cudaStreamSynchronize(a));
  auto begin = [&] {
    MUST(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    MUST(cudaEventRecord(fork, a));
    MUST(cudaStreamWaitEvent(b, fork, 0));
    MUST(cudaMemsetAsync(x.data(), 0, 4, b));
  };
  begin();
  CHECK(end_capture(a) == cudaErrorStreamCaptureUnjoined);

  begin();
  CHECK(end_capture(b) == cudaErrorStreamCaptureUnmatched);
  CHECK(end_capture(a) == cudaErrorStreamCaptureInvalidated);

  begin();
  MUST(cudaEventRecord(join, b));
  MUST(cudaStreamWaitEvent(a, join, 0));
  cudaError_t elsewhere = cudaSuccess;
  std::thread([&] { elsewhere = end_capture(a); }).join();
  CHECK(elsewhere == cudaErrorStreamCaptureWrongThread);
  CHECK(end_capture(a) == cudaSuccess);

  // Two captures do not mix.
  MUST(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
  MUST(cudaStreamBeginCapture(b, cudaStreamCaptureModeThreadLocal));
  MUST(cudaEventRecord(fork, a));
  CHECK(cudaStreamWaitEvent(b, fork, 0) == cudaErrorStreamCaptureMerge);
  CHECK(end_capture(a) == cudaErrorStreamCaptureInvalidated);
  CHECK(end_capture(b) == cudaErrorStreamCaptureInvalidated);
}

}  // namespace fake_cuda::testing
