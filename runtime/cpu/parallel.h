/// Sharing a kernel's loop among the threads of its rank.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tpc {

/// Calls body(begin, end, thread) on parts of [0, count), one a thread, `thread` < max_threads. What an item computes
/// must not depend on the part that it falls into, so that results are the same for any number of threads. `work` is
/// one item's, in element operations: little work stays on the calling thread.
template <class Body>
void parallel_ranges(int64_t count, int64_t work, int max_threads, const Body& body) {
  constexpr int64_t kWorkOfOneThread = 1 << 15;
  const int64_t threads = std::min({int64_t{max_threads}, int64_t{omp_get_max_threads()}, count,
                                    count * std::max<int64_t>(work, 1) / kWorkOfOneThread});
  if (threads <= 1) {
    body(int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const int64_t thread = omp_get_thread_num();
    const int64_t team = omp_get_num_threads();
    const int64_t begin = count * thread / team;
    const int64_t end = count * (thread + 1) / team;
    if (begin < end) body(begin, end, static_cast<int>(thread));
  }
}

template <class Body>
void parallel_ranges(int64_t count, int64_t work, const Body& body) {
  parallel_ranges(count, work, omp_get_max_threads(),
                  [&](int64_t begin, int64_t end, int /*thread*/) { body(begin, end); });
}

}  // namespace tpc
