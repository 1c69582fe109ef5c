/// Ranks as threads of one process, or as processes.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/fake_cuda/tests/child.h"

namespace fake_cuda::testing {

enum class RanksAre { kThreads, kProcesses };

/// Calls run(rank, id) on every rank, device `rank` being current. Returns how each process ended: one for threads.
std::vector<Ended> run_ranks(RanksAre kind, int num_ranks, const std::vector<std::string>& settings,
                             const std::function<void(int rank, const ncclUniqueId& id)>& run);

/// What all of them said.
std::string all_said(const std::vector<Ended>& ended);
bool all_well(const std::vector<Ended>& ended);

/// Dies unless it holds: for code of ranks.
void expect(bool condition, const std::string& what);

/// A communicator of the world, destroyed at its end.
class World {
 public:
  World(int num_ranks, const ncclUniqueId& id, int rank);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  operator ncclComm_t() const { return communicator_; }  // NOLINT: stands for it
 private:
  ncclComm_t communicator_ = nullptr;
};

}  // namespace fake_cuda::testing
