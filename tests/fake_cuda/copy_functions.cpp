// Functions of the CUDA runtime that copy and fill memory.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/call_log.h"
#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

enum class Memory { kDevice, kPinned, kPageable };

// Rows of `bytes` bytes, `pitch` bytes apart.
struct Rows {
  std::byte* data;
  uint64_t pitch;
  uint64_t bytes;
  uint64_t count;
  uint64_t span() const { return count == 0 ? 0 : (count - 1) * pitch + bytes; }
};

Memory memory_of(const void* pointer) {
  std::lock_guard lock(machine().mutex);
  if (machine().device_of(pointer) != nullptr) return Memory::kDevice;
  const auto* byte = static_cast<const std::byte*>(pointer);
  auto after = machine().pinned.upper_bound(byte);
  if (after == machine().pinned.begin()) return Memory::kPageable;
  const auto& [begin, pinned] = *std::prev(after);
  return byte < begin + pinned.bytes ? Memory::kPinned : Memory::kPageable;
}

void check_rows(const char* call, const char* what, const Rows& rows, Memory memory, const Device& device) {
  if (memory == Memory::kDevice) {
    int owner = device.index;
    if (rows.span() != 0) {
      std::lock_guard lock(machine().mutex);
      // Copies between devices are legal.
      if (Device* found = machine().device_of(rows.data)) owner = found->index;
    }
    check_device_range(call, what, rows.data, rows.span(), owner);
  }
  if (memory == Memory::kPinned) {
    std::unique_lock lock(machine().mutex);
    auto after = machine().pinned.upper_bound(rows.data);
    const auto& [begin, pinned] = *std::prev(after);
    bool inside = rows.data + rows.span() <= begin + pinned.bytes;
    lock.unlock();
    if (!inside)
      die("{}: {} is {}, and {} bytes from there leave it", call, what, describe_address(rows.data), rows.span());
  }
}

void copy_rows(const Rows& target, const Rows& source) {
  for (uint64_t i = 0; i < source.count; ++i) {
    std::memcpy(target.data + i * target.pitch, source.data + i * source.pitch, source.bytes);
  }
}

// Its host side may have been released since.
void check_still_pinned(const std::string& name, const Rows& rows, const void* begin_then) {
  std::lock_guard lock(machine().mutex);
  if (machine().pinned.count(static_cast<const std::byte*>(begin_then)) == 0) {
    die("\"{}\" runs after its pinned memory was released ({} bytes)", name, rows.span());
  }
}

const void* pinned_begin(const void* pointer) {
  std::lock_guard lock(machine().mutex);
  return std::prev(machine().pinned.upper_bound(static_cast<const std::byte*>(pointer)))->first;
}

bool is_host(cudaMemcpyKind kind, bool of_target) {
  return kind == cudaMemcpyHostToHost || kind == (of_target ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
}

void check_kind(const char* call, cudaMemcpyKind kind, Memory memory, bool of_target, const void* pointer) {
  if (kind == cudaMemcpyDefault || is_host(kind, of_target) == (memory != Memory::kDevice)) return;
  die("{}: the {} is {}, the kind of copy says otherwise", call, of_target ? "target" : "source",
      describe_address(pointer));
}

bool captures(cudaStream_t stream) {
  std::lock_guard lock(machine().mutex);
  return stream->capture != nullptr;
}

cudaError_t copy(const char* call, Rows target, Rows source, cudaMemcpyKind kind, cudaStream_t stream) {
  check_stream(call, stream);
  if (source.span() == 0) return cudaSuccess;
  Memory from = memory_of(source.data);
  Memory to = memory_of(target.data);
  check_kind(call, kind, to, true, target.data);
  check_kind(call, kind, from, false, source.data);
  check_rows(call, "the target", target, to, *stream->device);
  check_rows(call, "the source", source, from, *stream->device);
  bool staged = from == Memory::kPageable || to == Memory::kPageable;
  if (staged && captures(stream)) {
    std::lock_guard lock(machine().mutex);
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  std::string name = fmt::format("{} of {} bytes", call, source.bytes * source.count);
  log_call(stream, call, "", source.bytes * source.count, {target.data, source.data});

  if (from == Memory::kPageable) {
    // The driver takes the source before the call returns.
    auto kept = std::make_shared<std::vector<std::byte>>(source.bytes * source.count);
    Rows copy_of{kept->data(), source.bytes, source.bytes, source.count};
    copy_rows(copy_of, source);
    issue(call, stream, simple_work(name, [=] { static_cast<void>(kept), copy_rows(target, copy_of); }));
    return cudaSuccess;
  }
  const void* pinned = from == Memory::kPinned ? pinned_begin(source.data)
                       : to == Memory::kPinned ? pinned_begin(target.data)
                                               : nullptr;
  Rows host = from == Memory::kPinned ? source : target;
  issue(call, stream, simple_work(name, [=] {
          if (pinned != nullptr) check_still_pinned(name, host, pinned);
          copy_rows(target, source);
        }));
  // And returns only when the target is written.
  if (to == Memory::kPageable) run_until(call, *stream->device, [=] { return is_idle(*stream); });
  return cudaSuccess;
}

Rows rows(const void* data, size_t pitch, size_t bytes, size_t count) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), pitch, bytes, count};
}

cudaError_t fill(const char* call, void* target, int value, size_t bytes, cudaStream_t stream) {
  check_stream(call, stream);
  check_device_range(call, "the target", target, bytes, stream->device->index);
  log_call(stream, call, fmt::format("{}", value), bytes, {target});
  issue(call, stream, simple_work(fmt::format("{} of {} bytes", call, bytes), [=] {
          if (bytes > 0) std::memset(target, value, bytes);
        }));
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_call("cudaMemcpyAsync", [&] {
    return copy("cudaMemcpyAsync", rows(target, bytes, bytes, 1), rows(source, bytes, bytes, 1), kind, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return run_call("cudaMemcpy2DAsync", [&] {
    if (width > target_pitch || width > source_pitch) return cudaErrorInvalidValue;
    size_t count = width == 0 ? 0 : height;
    return copy("cudaMemcpy2DAsync", rows(target, target_pitch, width, count), rows(source, source_pitch, width, count),
                kind, stream);
  });
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return run_call("cudaMemsetAsync", [&] { return fill("cudaMemsetAsync", target, value, bytes, stream); });
}

// These work on the NULL stream, so they end the process.
cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return copy("cudaMemcpy", rows(target, bytes, bytes, 1), rows(source, bytes, bytes, 1), kind, nullptr);
}

cudaError_t cudaMemset(void* target, int value, size_t bytes) {
  return fill("cudaMemset", target, value, bytes, nullptr);
}

}  // extern "C"
