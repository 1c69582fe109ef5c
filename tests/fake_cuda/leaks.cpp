#include "tests/fake_cuda/leaks.h"

#include <unistd.h>

#include <cstdlib>

#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

constexpr size_t kMostNamed = 10;

std::string join(const std::vector<std::string>& leaks) {
  std::string text;
  for (size_t i = 0; i < leaks.size() && i < kMostNamed; ++i) text += "\n  " + leaks[i];
  if (leaks.size() > kMostNamed) text += fmt::format("\n  and {} more", leaks.size() - kMostNamed);
  return text;
}

// A process that failed need not have cleaned up.
void at_end(int status, void* /*unused*/) {
  write_log();
  if (status == 0 && machine().settings.leaks) check_leaks();
}

template <class Handles>
void add_handles(std::vector<std::string>& leaks, const Handles& handles, const char* kind) {
  for (const auto& handle : handles) {
    if (!handle.destroyed)
      leaks.push_back(fmt::format("{} {} of device {}", kind, handle.number, handle.device->index));
  }
}

}  // namespace

std::vector<std::string> find_leaks() {
  Machine& all = machine();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> leaks;
  for (const std::unique_ptr<Device>& device : all.devices) {
    if (!device) continue;
    for (const auto& [pages, allocation] : device->memory.allocations()) {
      if (!allocation.live) continue;
      leaks.push_back(fmt::format("allocation {} of device {} ({} bytes, {})", allocation.number, device->index,
                                  allocation.bytes, allocation.made_by));
    }
    for (const CUstream_st* stream : device->streams) {
      if (stream->items.empty()) continue;
      leaks.push_back(fmt::format("{} issued to stream {} of device {} that nobody waited for, first \"{}\"",
                                  stream->items.size(), stream->number, device->index,
                                  stream->items.front().steps.empty() ? "" : stream->items.front().steps[0].work.name));
    }
  }
  for (const auto& [data, pinned] : all.pinned) {
    leaks.push_back(fmt::format("pinned allocation {} ({} bytes)", pinned.number, pinned.bytes));
  }
  add_handles(leaks, all.streams, "stream");
  add_handles(leaks, all.events, "event");
  add_handles(leaks, all.graphs, "graph");
  add_handles(leaks, all.executables, "executable graph");
  for (const std::unique_ptr<ncclComm>& communicator : all.communicators) {
    if (!communicator->ended) leaks.push_back(fmt::format("communicator {}", communicator->name()));
  }
  if (all.num_matmul_handles > 0) leaks.push_back(fmt::format("{} handles of cuBLASLt", all.num_matmul_handles));
  return leaks;
}

void check_leaks() {
  std::vector<std::string> leaks = find_leaks();
  if (!leaks.empty()) die("never released:{}", join(leaks));
}

void watch_end_of_process() {
  static const bool watched = on_exit(at_end, nullptr) == 0;
  static_cast<void>(watched);
}

}  // namespace fake_cuda
