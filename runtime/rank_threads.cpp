#include "runtime/rank_threads.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace tpc {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr auto kGrace = std::chrono::seconds(5);

}  // namespace

// Owned by the threads too, so that an abandoned one finds it in place whenever it comes back.
struct RankThreads::Shared {
  std::mutex mutex;
  std::condition_variable started, finished;
  std::function<void(int64_t)> task;
  uint64_t generation = 0;
  std::vector<char> is_busy;
  int64_t num_busy = 0;
  bool stop = false;
};

int threads_per_rank(int64_t world_size, int wanted) {
  if (wanted > 0) return wanted;
  auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<int>(std::max(int64_t{1}, cores / world_size));
}

RankThreads::RankThreads(ThreadWorld& world, int openmp_threads) : world_(world), shared_(std::make_shared<Shared>()) {
  shared_->is_busy.resize(static_cast<size_t>(world.world_size()));
  try {
    for (int64_t rank = 0; rank < world.world_size(); ++rank) {
      threads_.emplace_back(serve, shared_, std::ref(world), rank, openmp_threads);
    }
  } catch (const std::system_error& error) {
    size_t started = threads_.size();
    {
      std::lock_guard lock(shared_->mutex);
      shared_->stop = true;
    }
    shared_->started.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw DeviceError(fmt::format("the system gives {} of the {} threads that the ranks need: {}", started,
                                  world.world_size(), error.what()));
  }
}

RankThreads::~RankThreads() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->started.notify_all();
  for (size_t rank = 0; rank < threads_.size(); ++rank) {
    bool is_busy;
    {
      std::lock_guard lock(shared_->mutex);
      is_busy = shared_->is_busy[rank] != 0;
    }
    if (is_busy) {
      threads_[rank].detach();
    } else {
      threads_[rank].join();
    }
  }
}

void RankThreads::serve(std::shared_ptr<Shared> shared, ThreadWorld& world, int64_t rank, int openmp_threads) {
  omp_set_num_threads(openmp_threads);
  uint64_t served = 0;
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->started.wait(lock, [&] { return shared->stop || shared->generation != served; });
    if (shared->stop) return;
    served = shared->generation;
    lock.unlock();
    try {
      shared->task(rank);
    } catch (...) {
      world.fail(std::current_exception());
    }
    lock.lock();
    shared->is_busy[static_cast<size_t>(rank)] = 0;
    if (--shared->num_busy == 0) shared->finished.notify_all();
  }
}

void RankThreads::run(const std::function<void(int64_t)>& task, const std::function<std::string(int64_t)>& where) {
  world_.rethrow_failure();
  {
    std::lock_guard lock(shared_->mutex);
    shared_->task = task;
    ++shared_->generation;
    shared_->num_busy = world_.world_size();
    std::fill(shared_->is_busy.begin(), shared_->is_busy.end(), char{1});
  }
  shared_->started.notify_all();
  wait_for_ranks(where);
  world_.rethrow_failure();
}

void RankThreads::wait_for_ranks(const std::function<std::string(int64_t)>& where) {
  std::unique_lock lock(shared_->mutex);
  auto is_done = [&] { return shared_->num_busy == 0; };
  while (!shared_->finished.wait_for(lock, kPoll, is_done)) {
    if (world_.has_failed()) break;
  }
  if (shared_->finished.wait_for(lock, kGrace, is_done)) return;

  has_abandoned_ = true;
  std::string lost;
  for (int64_t rank = 0; rank < world_.world_size(); ++rank) {
    if (shared_->is_busy[static_cast<size_t>(rank)] == 0) continue;
    std::string place = where ? where(rank) : "";
    lost += fmt::format("; rank {} does not come back{}{}", rank, place.empty() ? "" : " from ", place);
  }
  try {
    world_.rethrow_failure();
  } catch (const RunEnded&) {
    throw;
  } catch (const DeviceError& error) {
    throw DeviceError(error.what() + lost);
  }
}

}  // namespace tpc
