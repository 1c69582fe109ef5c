/// Working memory that the kernels of one rank use in turn.
#pragma once

#include <cstdint>
#include <vector>

namespace tpc {

/// A rank runs one kernel at a time, so what kernels need only while they run they share: for each thread as many
/// floats as the most demanding of them asks for. What a kernel finds in it is what another one left.
class Scratch {
 public:
  /// While kernels are prepared: room for `floats` on each of `threads` threads.
  void reserve(int threads, int64_t floats) {
    if (static_cast<size_t>(threads) > of_threads_.size()) of_threads_.resize(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) {
      std::vector<float>& room = of_threads_[static_cast<size_t>(t)];
      if (room.size() < static_cast<size_t>(floats)) room.resize(static_cast<size_t>(floats));
    }
  }

  /// Of a thread, for the length of a run: addresses change while other kernels are prepared.
  float* of(int thread) { return of_threads_[static_cast<size_t>(thread)].data(); }

 private:
  std::vector<std::vector<float>> of_threads_;
};

}  // namespace tpc
