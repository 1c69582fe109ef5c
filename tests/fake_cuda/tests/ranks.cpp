#include "tests/fake_cuda/tests/ranks.h"

#include <memory>
#include <thread>

#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/tests/check.h"

namespace fake_cuda::testing {

std::vector<Ended> run_ranks(RanksAre kind, int num_ranks, const std::vector<std::string>& settings,
                             const std::function<void(int rank, const ncclUniqueId& id)>& run) {
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  auto run_one = [&](int rank) {
    MUST(cudaSetDevice(rank));
    run(rank, id);
  };
  std::vector<std::unique_ptr<Child>> children;
  if (kind == RanksAre::kThreads) {
    children.push_back(std::make_unique<Child>(settings, [&] {
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < num_ranks; ++rank) ranks.emplace_back(run_one, rank);
      for (std::thread& rank : ranks) rank.join();
    }));
  } else {
    for (int rank = 0; rank < num_ranks; ++rank) {
      children.push_back(std::make_unique<Child>(settings, [&] { run_one(rank); }));
    }
  }
  std::vector<Ended> ended;
  for (const std::unique_ptr<Child>& child : children) ended.push_back(child->wait());
  return ended;
}

std::string all_said(const std::vector<Ended>& ended) {
  std::string said;
  for (const Ended& one : ended) said += one.said;
  return said;
}

bool all_well(const std::vector<Ended>& ended) {
  for (const Ended& one : ended) {
    if (one.exit_code != 0 || one.signal != 0) return false;
  }
  return true;
}

void expect(bool condition, const std::string& what) {
  if (!condition) die("expected: {}", what);
}

World::World(int num_ranks, const ncclUniqueId& id, int rank) {
  MUST(ncclCommInitRank(&communicator_, num_ranks, id, rank));
}
World::~World() { MUST(ncclCommDestroy(communicator_)); }

}  // namespace fake_cuda::testing
