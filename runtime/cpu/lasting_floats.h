/// Working memory whose addresses last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace tpc {

/// Kernels of one rank run in turn and share it, as they do Scratch; but an address, once given, stays, for it goes
/// into other kernels when they are prepared. Memory is the system's until somebody writes to it, so blocks may grow
/// twofold and be many.
class LastingFloats {
 public:
  /// Room for `floats`, at the start of a cache line. What was given before may be the same room.
  float* room(int64_t floats) {
    if (blocks_.empty() || size_ < floats) {
      size_ = std::max(floats, 2 * size_);
      constexpr size_t kLine = 64;
      size_t bytes = (static_cast<size_t>(size_) * sizeof(float) + kLine - 1) / kLine * kLine;
      auto* memory = static_cast<float*>(std::aligned_alloc(kLine, std::max(bytes, kLine)));
      if (memory == nullptr) throw std::bad_alloc();
      blocks_.emplace_back(memory);
    }
    return blocks_.back().get();
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<float, Free>> blocks_;
  int64_t size_ = 0;  ///< of the last block
};

}  // namespace tpc
