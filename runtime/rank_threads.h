/// The threads of the ranks of this process.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/threads/rendezvous.h"

namespace tpc {

/// One thread a rank, for the life of this object, each with its own team of OpenMP threads. A rank that throws ends
/// the run: ranks that wait for it stop, and run() throws what it threw.
class RankThreads {
 public:
  /// `world` outlives the threads. Throws DeviceError when the system gives no more threads.
  RankThreads(ThreadWorld& world, int openmp_threads);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Runs task(rank) on every rank at once and waits. After a failure ranks get a few seconds to come back; one that
  /// does not stays behind (has_abandoned) and is named through `where`, which says what a rank is doing ("" when
  /// unknown). Once failed, every later call throws the same.
  void run(const std::function<void(int64_t rank)>& task, const std::function<std::string(int64_t rank)>& where = {});

  /// True when a thread did not come back: what it can reach must then live as long as the process.
  bool has_abandoned() const { return has_abandoned_; }

 private:
  struct Shared;
  static void serve(std::shared_ptr<Shared> shared, ThreadWorld& world, int64_t rank, int openmp_threads);
  void wait_for_ranks(const std::function<std::string(int64_t)>& where);

  ThreadWorld& world_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  bool has_abandoned_ = false;
};

/// How many threads each rank's kernels get: `wanted`, or cores / ranks and at least 1 when `wanted` is 0.
int threads_per_rank(int64_t world_size, int wanted);

}  // namespace tpc
