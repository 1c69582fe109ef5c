/// Ranks as threads, for tests of the communicator.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/threads/thread_communicator.h"

namespace tpc::testing {

/// Runs body(rank, communicator) on every rank of the world; what a rank throws ends the run, as in training.
inline void run_ranks(ThreadWorld& world, const std::function<void(int64_t, ThreadCommunicator&)>& body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < world.world_size(); ++rank) {
    threads.emplace_back([&world, &body, rank] {
      try {
        ThreadCommunicator communicator(world, rank);
        body(rank, communicator);
      } catch (...) {
        world.fail(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tpc::testing
