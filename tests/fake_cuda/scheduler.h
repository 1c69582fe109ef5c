/// Which work runs when. Nothing runs but while the host waits or asks; among what could run a seeded generator draws.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "tests/fake_cuda/machine.h"

namespace fake_cuda {

/// Appends work to a stream, or to what it captures. Dies on the NULL stream and on a destroyed one.
void issue(const char* call, cudaStream_t stream, MakeWork make);
/// Appends a whole graph.
void issue_graph(cudaStream_t stream, CUgraphExec_st& graph);

/// Runs work of the device until the condition, which is evaluated with the machine locked, holds. When nothing moves
/// for Settings::stuck, or work has failed, dies with the heads of all streams.
void run_until(const char* call, Device& device, const std::function<bool()>& condition);
/// Runs a little of the device's work: for calls that only ask.
void run_some(Device& device);

/// Whether the stream has nothing left; with the machine locked.
bool is_idle(const CUstream_st& stream);
bool is_idle(const Device& device);

/// What every stream of the device has at its head, one a line; with the machine locked.
std::string stream_heads(const Device& device);

/// Dies when the handle is null or was destroyed.
void check_stream(const char* call, cudaStream_t stream);
void check_event(const char* call, cudaEvent_t event);

}  // namespace fake_cuda
