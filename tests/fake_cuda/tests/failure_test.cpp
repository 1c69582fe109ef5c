// Ranks that fail, disagree, hang or die.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/ranks.h"

namespace fake_cuda::testing {
namespace {

using std::chrono::steady_clock;

bool contains(const std::vector<Ended>& ended, const std::string& text) {
  return all_said(ended).find(text) != std::string::npos;
}

// As an executor waits: it asks, and looks for errors. Returns the error, after aborting the communicator.
ncclResult_t wait_or_abort(ncclComm_t world, cudaStream_t stream, std::chrono::milliseconds deadline) {
  steady_clock::time_point end = steady_clock::now() + deadline;
  while (true) {
    cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return ncclSuccess;
    expect(state == cudaErrorNotReady, "success or not ready");
    ncclResult_t error = ncclSuccess;
    MUST(ncclCommGetAsyncError(world, &error));
    bool late = steady_clock::now() > end;
    if (error == ncclSuccess && !late) continue;
    steady_clock::time_point begin = steady_clock::now();
    MUST(ncclCommAbort(world));
    MUST(cudaStreamSynchronize(stream));
    expect(steady_clock::now() - begin < std::chrono::seconds(1), "an abort that returns");
    return late ? ncclInProgress : error;
  }
}

// Sums `times` times; `outcome(rank, error)` judges how it ended.
template <class Outcome>
std::vector<Ended> sum_with(const std::vector<std::string>& settings, RanksAre kind, Outcome outcome,
                            std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
  constexpr int kTimes = 10;
  return run_ranks(kind, 3, settings, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t world = nullptr;
    MUST(ncclCommInitRank(&world, 3, id, rank));
    Stream stream;
    DeviceFloats x({1}, stream);
    for (int i = 0; i < kTimes; ++i) {
      ncclResult_t error = ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, world, stream);
      bool ended = error != ncclSuccess;
      if (ended) {
        MUST(ncclCommAbort(world));
      } else {
        error = wait_or_abort(world, stream, deadline);
        ended = error != ncclSuccess;
      }
      if (!ended) continue;
      expect(i == 6, "a failure in the seventh sum");
      outcome(rank, error);
      return;
    }
    MUST(ncclCommDestroy(world));
    outcome(rank, ncclSuccess);
  });
}

}  // namespace

TEST_CASE("a planted failure of a call is that rank's; the others hear of its end") {
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) {
    std::vector<Ended> ended =
        sum_with({"FAKE_CUDA_FAIL=ncclAllReduce:rank1:call7:ncclSystemError"}, kind, [](int rank, ncclResult_t error) {
          expect(error == (rank == 1 ? ncclSystemError : ncclRemoteError), "the error");
        });
    CHECK_MESSAGE(all_well(ended), all_said(ended));
    CHECK(contains(ended, "rank 1 of the communicator has ended"));
  }
}

TEST_CASE("an asynchronous error is seen by who asks") {
  std::vector<Ended> ended = sum_with({"FAKE_CUDA_FAIL=ncclAllReduce:rank2:call7:async=ncclInternalError"},
                                      RanksAre::kProcesses, [](int rank, ncclResult_t error) {
                                        expect(error == (rank == 2 ? ncclInternalError : ncclRemoteError), "the error");
                                      });
  CHECK_MESSAGE(all_well(ended), all_said(ended));
}

TEST_CASE("a rank whose work never begins keeps the others waiting until their deadline") {
  std::vector<Ended> ended = sum_with(
      {"FAKE_CUDA_FAIL=ncclAllReduce:rank0:call7:stall", "FAKE_NCCL_REMOTE_ERROR=never"}, RanksAre::kProcesses,
      [](int /*rank*/, ncclResult_t error) { expect(error == ncclInProgress, "nothing but the deadline"); },
      std::chrono::seconds(2));
  CHECK_MESSAGE(all_well(ended), all_said(ended));
}

TEST_CASE("a rank that is killed keeps the others waiting, and is then an error of theirs") {
  std::vector<Ended> ended =
      sum_with({"FAKE_CUDA_FAIL=ncclAllReduce:rank1:call7:kill"}, RanksAre::kProcesses,
               [](int /*rank*/, ncclResult_t error) { expect(error == ncclRemoteError, "a remote error"); });
  CHECK(ended[1].signal == SIGKILL);
  CHECK_MESSAGE(all_well({ended[0], ended[2]}), all_said(ended));
}

TEST_CASE("a wait that has no end names the heads of all streams and who is missing") {
  std::vector<Ended> ended =
      run_ranks(RanksAre::kProcesses, 2, {"FAKE_CUDA_STUCK=1"}, [](int rank, const ncclUniqueId& id) {
        World world(2, id, rank);
        Stream stream;
        DeviceFloats x({1}, stream);
        if (rank == 1) kill(getpid(), SIGKILL);
        MUST(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, world, stream));
        MUST(cudaStreamSynchronize(stream));
      });
  CHECK(ended[0].signal == SIGABRT);
  CHECK(contains(ended, "cudaStreamSynchronize on device 0 (rank 0) waits for ever, nothing has moved for 1 s"));
  CHECK(contains(ended,
                 "stream 1: ncclAllReduce of 1 f32 (sum) on communicator 1 (waits for ranks 1 (its process has "
                 "ended)), then 0 more"));
}

TEST_CASE("ranks that call different collectives all say so") {
  struct Case {
    const char* said;
    std::function<ncclResult_t(int, float*, ncclComm_t, cudaStream_t)> call;
  };
  const Case cases[] = {
      {"rank 0 ncclAllReduce of 1 f32 (sum), rank 1 ncclAllReduce of 2 f32 (sum) (number 0",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return ncclAllReduce(x, x, static_cast<size_t>(rank) + 1, ncclFloat32, ncclSum, world, stream);
       }},
      {"rank 0 ncclAllReduce of 1 f32 (sum), rank 1 ncclAllReduce of 1 f32 (max)",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return ncclAllReduce(x, x, 1, ncclFloat32, rank == 0 ? ncclSum : ncclMax, world, stream);
       }},
      {"rank 0 ncclAllReduce of 1 f32 (sum), rank 1 ncclAllReduce of 1 i32 (sum)",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return ncclAllReduce(x, x, 1, rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, world, stream);
       }},
      {"rank 0 ncclBroadcast of 1 f32 (root 0), rank 1 ncclBroadcast of 1 f32 (root 1)",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return ncclBroadcast(x, x, 1, ncclFloat32, rank, world, stream);
       }},
      {"rank 0 ncclAllReduce of 1 f32 (sum), rank 1 ncclBroadcast of 1 f32 (root 0)",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return rank == 0 ? ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, world, stream)
                          : ncclBroadcast(x, x, 1, ncclFloat32, 0, world, stream);
       }},
      {"rank 0 sends 2 f32 to rank 1, which receives 1 f32",
       [](int rank, float* x, ncclComm_t world, cudaStream_t stream) {
         return rank == 0 ? ncclSend(x, 2, ncclFloat32, 1, world, stream)
                          : ncclRecv(x, 1, ncclFloat32, 0, world, stream);
       }},
  };
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) {
    for (const Case& one : cases) {
      CAPTURE(one.said);
      std::vector<Ended> ended = run_ranks(kind, 2, {}, [&](int rank, const ncclUniqueId& id) {
        ncclComm_t world = nullptr;
        MUST(ncclCommInitRank(&world, 2, id, rank));
        Stream stream;
        DeviceFloats x({1, 1}, stream);
        MUST(one.call(rank, x.data(), world, stream));
        expect(wait_or_abort(world, stream, std::chrono::seconds(60)) == ncclInvalidUsage, "invalid usage");
      });
      CHECK_MESSAGE(all_well(ended), all_said(ended));
      std::string said = all_said(ended);
      size_t first = said.find(one.said);
      CHECK_MESSAGE(first != std::string::npos, said);
      CHECK_MESSAGE(said.find(one.said, first + 1) != std::string::npos, "only one rank says it: ", said);
    }
  }
}

TEST_CASE("sends that wait for each other are stuck, in a group they are not") {
  auto run = [](bool group) {
    return run_ranks(RanksAre::kThreads, 2, {"FAKE_CUDA_STUCK=1"}, [group](int rank, const ncclUniqueId& id) {
      World world(2, id, rank);
      Stream stream;
      DeviceFloats x({1}, stream), y(1);
      if (group) MUST(ncclGroupStart());
      MUST(ncclSend(x.data(), 1, ncclFloat32, 1 - rank, world, stream));
      MUST(ncclRecv(y.data(), 1, ncclFloat32, 1 - rank, world, stream));
      if (group) MUST(ncclGroupEnd());
      MUST(cudaStreamSynchronize(stream));
    });
  };
  std::vector<Ended> grouped = run(true);
  CHECK_MESSAGE(all_well(grouped), all_said(grouped));
  CHECK(contains(run(false), "a send to rank 1 waits"));
}

TEST_CASE("a communicator is refused where ranks or devices are given twice") {
  auto make = [](int num_ranks, int rank, int device) {
    return [=](const ncclUniqueId& id) {
      MUST(cudaSetDevice(device));
      ncclComm_t world = nullptr;
      ncclResult_t result = ncclCommInitRank(&world, num_ranks, id, rank);
      if (world != nullptr) MUST(ncclCommAbort(world));
      MUST(result);
    };
  };
  std::vector<Ended> same_rank = run_ranks(RanksAre::kProcesses, 2, {"FAKE_CUDA_STUCK=1"},
                                           [&](int rank, const ncclUniqueId& id) { make(2, 0, rank)(id); });
  CHECK(contains(same_rank, "two ranks say that they are rank 0"));
  std::vector<Ended> sizes = run_ranks(RanksAre::kProcesses, 2, {"FAKE_CUDA_STUCK=1"},
                                       [&](int rank, const ncclUniqueId& id) { make(2 + rank, rank, rank)(id); });
  CHECK(contains(sizes, "ranks, another says"));
  std::vector<Ended> same_device =
      run_ranks(RanksAre::kProcesses, 2, {}, [&](int rank, const ncclUniqueId& id) { make(2, rank, 0)(id); });
  CHECK(contains(same_device, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0 of"));
}

TEST_CASE("a rank that never comes is named") {
  std::vector<Ended> ended = run_ranks(RanksAre::kProcesses, 1, {"FAKE_CUDA_STUCK=1"},
                                       [](int rank, const ncclUniqueId& id) { World world(3, id, rank); });
  CHECK(contains(ended, "ncclCommInitRank: rank 0 waits for ever for ranks 1, 2"));
}

TEST_CASE("a rank that ends before the communicator is made is an error of those that came") {
  std::vector<Ended> ended = run_ranks(RanksAre::kProcesses, 3, {}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t world = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (rank == 2) return;
    expect(ncclCommInitRankConfig(&world, 3, id, rank, &config) == ncclInProgress, "in progress");
    if (rank == 1) kill(getpid(), SIGKILL);
    ncclResult_t error = ncclInProgress;
    while (error == ncclInProgress) MUST(ncclCommGetAsyncError(world, &error));
    expect(error == ncclRemoteError, "a remote error");
    expect(std::string(ncclGetLastError(world)) == "rank 1 has ended before the communicator was made", "its sentence");
    MUST(ncclCommAbort(world));
  });
  CHECK_MESSAGE(all_well({ended[0], ended[2]}), all_said(ended));
}

TEST_CASE("no file is left in shared memory") {
  auto count = [] {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      std::string mine = "fake_nccl." + std::to_string(getpid()) + ".";
      files += entry.path().filename().string().starts_with(mine) ? 1 : 0;
    }
    return files;
  };
  // Killed while it waits for a rank that never comes: the next process removes its file.
  Child lost({}, [] {
    ncclUniqueId id;
    MUST(ncclGetUniqueId(&id));
    World world(2, id, 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  lost.kill();
  lost.wait();
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::string file = entry.path().filename();
    if (!file.starts_with("fake_nccl.")) continue;
    CHECK_MESSAGE(std::filesystem::exists("/proc/" + std::to_string(std::atoi(file.c_str() + 10))), file);
  }
  {
    Environment environment({});
    World world(1, id, 0);
    CHECK(count() == 0);
  }
}

}  // namespace fake_cuda::testing
