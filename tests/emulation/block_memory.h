/// Memory of a running block: the threads' stacks and shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace gpu {

/// Stacks with a page between them that nothing may touch.
class Stacks {
 public:
  static constexpr size_t kBytes = size_t{128} << 10;

  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  /// Room for `count` stacks; what was on them is gone.
  void reserve(unsigned count);
  char* at(unsigned index) const;

 private:
  void release();

  char* memory_ = nullptr;
  unsigned count_ = 0;
};

/// Shared memory of one block. It starts as NaN, and what lies between its arrays is watched.
class SharedMemory {
 public:
  explicit SharedMemory(size_t dynamic_bytes);

  char* dynamic() const { return dynamic_.get(); }
  /// The array with this key, made when it is first asked for; nullptr when that would be more than a block may have.
  /// Allocates nothing: a fiber calls it.
  char* array(const void* key, size_t bytes);
  /// True when a thread wrote past the end of an array.
  bool overrun() const;

  /// Three objects for the thread sanitizer, which live as long: the barrier's two, in turn, and the warps'.
  char* barrier_edge(unsigned generation) const { return edges_.get() + generation % 2; }
  char* warp_edge(unsigned warp) const { return edges_.get() + 2 + warp; }

 private:
  static constexpr size_t kStaticBytes = size_t{48} << 10;
  static constexpr size_t kGap = 32;
  static constexpr size_t kMaxArrays = 64;
  static constexpr size_t kMaxWarps = 32;

  struct Array {
    const void* key = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };

  std::unique_ptr<char[]> static_;
  std::unique_ptr<char[]> dynamic_;
  std::unique_ptr<char[]> edges_;
  size_t dynamic_bytes_ = 0;
  size_t used_ = 0;        // with the gaps
  size_t used_bytes_ = 0;  // as on the device
  size_t num_arrays_ = 0;
  std::array<Array, kMaxArrays> arrays_;
};

}  // namespace gpu
