#include "tests/fake_cuda/call_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "tests/fake_cuda/machine.h"

namespace fake_cuda {
namespace {

// With the machine locked.
Place place(const void* pointer) {
  Machine& all = machine();
  const auto* byte = static_cast<const std::byte*>(pointer);
  if (Device* device = all.device_of(pointer)) {
    Allocation* allocation = device->memory.find(pointer);
    if (allocation == nullptr) return {device->index, 0, 0};
    return {device->index, allocation->number, static_cast<uint64_t>(byte - allocation->data)};
  }
  auto after = all.pinned.upper_bound(byte);
  if (after == all.pinned.begin()) return {};
  const auto& [begin, pinned] = *std::prev(after);
  if (byte >= begin + pinned.bytes) return {};
  return {-1, pinned.number, static_cast<uint64_t>(byte - begin)};
}

std::string to_text(const Place& place) {
  if (place.device < 0 && place.allocation == 0) return "host";
  std::string memory = place.device < 0 ? "pinned" : fmt::format("device{}", place.device);
  return fmt::format("{}:alloc{}+{}", memory, place.allocation, place.offset);
}

}  // namespace

void log_call(cudaStream_t stream, const std::string& name, const std::string& arguments, uint64_t bytes,
              std::initializer_list<const void*> pointers) {
  Machine& all = machine();
  std::lock_guard lock(all.mutex);
  if (!all.keeps_log && all.settings.log.empty()) return;
  Call call{stream->device->rank, stream->device->index, stream->number, name, arguments, bytes, {}};
  for (const void* pointer : pointers) call.places.push_back(place(pointer));
  all.calls.push_back(std::move(call));
}

void keep_log() {
  std::lock_guard lock(machine().mutex);
  machine().keeps_log = true;
}

std::vector<Call> log() {
  std::vector<Call> calls;
  {
    std::lock_guard lock(machine().mutex);
    calls = machine().calls;
  }
  std::stable_sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.rank < b.rank; });
  return calls;
}

std::string to_string(const Call& call) {
  std::string text = fmt::format("rank {} stream {} {}", call.rank, call.stream, call.name);
  if (!call.arguments.empty()) text += " " + call.arguments;
  text += fmt::format(" {} bytes", call.bytes);
  for (const Place& place : call.places) text += " " + to_text(place);
  return text;
}

void write_log() {
  const std::string& path = machine().settings.log;
  if (path.empty()) return;
  std::ofstream file(path, std::ios::app);
  for (const Call& call : log()) file << to_string(call) << '\n';
}

}  // namespace fake_cuda
