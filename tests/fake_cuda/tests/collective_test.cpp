#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/ranks.h"

namespace fake_cuda::testing {
namespace {

// Every rank's digit stands elsewhere, so that a sum shows who is in it.
float value(int rank, size_t index) { return static_cast<float>(1 << (4 * rank)) + static_cast<float>(index % 7) / 8; }

std::vector<float> values(int rank, size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = value(rank, i);
  return made;
}

void check_collectives(int num_ranks, const ncclUniqueId& id, int rank, size_t count) {
  World world(num_ranks, id, rank);
  Stream stream;
  auto n = static_cast<size_t>(num_ranks);
  auto own = static_cast<size_t>(rank);
  {
    DeviceFloats x(values(rank, count), stream), sum(count);
    MUST(ncclAllReduce(x.data(), sum.data(), count, ncclFloat32, ncclSum, world, stream));
    MUST(ncclAllReduce(x.data(), x.data(), count, ncclFloat32, ncclMax, world, stream));
    std::vector<float> got = sum.read(stream), most = x.read(stream);
    for (size_t i = 0; i < count; ++i) {
      float wanted = 0;
      for (int other = 0; other < num_ranks; ++other) wanted += value(other, i);
      expect(got[i] == wanted, "sum");
      expect(most[i] == value(num_ranks - 1, i), "maximum");
    }
  }
  {
    // In place: the own part of the result is the input.
    DeviceFloats all(n * count);
    std::vector<float> mine = values(rank, count);
    float* part = all.data() + own * count;
    MUST(cudaMemcpyAsync(part, mine.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
    MUST(ncclAllGather(part, all.data(), count, ncclFloat32, world, stream));
    std::vector<float> got = all.read(stream);
    for (int other = 0; other < num_ranks; ++other) {
      for (size_t i = 0; i < count; ++i)
        expect(got[static_cast<size_t>(other) * count + i] == value(other, i), "gather");
    }
    MUST(ncclReduceScatter(all.data(), part, count, ncclFloat32, ncclAvg, world, stream));
    got = all.read(stream);
    for (size_t i = 0; i < count; ++i) expect(got[own * count + i] == value(rank, i), "reduce-scatter");
  }
  {
    DeviceFloats in(values(rank, n * count), stream), out(n * count), root(values(rank, count), stream);
    MUST(ncclAlltoAll(in.data(), out.data(), count, ncclFloat32, world, stream));
    MUST(ncclBroadcast(root.data(), root.data(), count, ncclFloat32, num_ranks - 1, world, stream));
    std::vector<float> got = out.read(stream), sent = root.read(stream);
    for (size_t from = 0; from < n; ++from) {
      for (size_t i = 0; i < count; ++i) {
        expect(got[from * count + i] == value(static_cast<int>(from), own * count + i), "all-to-all");
      }
    }
    for (size_t i = 0; i < count; ++i) expect(sent[i] == value(num_ranks - 1, i), "broadcast");
  }
}

// Rank a sends (a + 1) * 1000 + b elements to rank b, itself included.
size_t sent(int from, int to) { return static_cast<size_t>((from + 1) * 1000 + to); }

void check_uneven_exchange(int num_ranks, const ncclUniqueId& id, int rank) {
  World world(num_ranks, id, rank);
  Stream stream;
  size_t total_out = 0, total_in = 0;
  for (int other = 0; other < num_ranks; ++other) total_out += sent(rank, other), total_in += sent(other, rank);
  // More than is sent at once.
  DeviceFloats out(values(rank, total_out), stream), in(total_in);
  for (int times = 0; times < 3; ++times) {
    size_t at_out = 0, at_in = 0;
    MUST(ncclGroupStart());
    for (int other = 0; other < num_ranks; ++other) {
      MUST(ncclSend(out.data() + at_out, sent(rank, other), ncclFloat32, other, world, stream));
      MUST(ncclRecv(in.data() + at_in, sent(other, rank), ncclFloat32, other, world, stream));
      at_out += sent(rank, other);
      at_in += sent(other, rank);
    }
    MUST(ncclGroupEnd());
  }
  std::vector<float> got = in.read(stream);
  size_t at = 0;
  for (int from = 0; from < num_ranks; ++from) {
    size_t start = 0;
    for (int to = 0; to < rank; ++to) start += sent(from, to);
    for (size_t i = 0; i < sent(from, rank); ++i) expect(got[at++] == value(from, start + i), "what was sent");
  }
}

void check_split(int num_ranks, const ncclUniqueId& id, int rank) {
  World world(num_ranks, id, rank);
  Stream stream;
  // Odd and even ranks, in falling order; the last rank in neither.
  bool is_last = rank == num_ranks - 1;
  ncclComm_t half = nullptr;
  MUST(ncclCommSplit(world, is_last ? NCCL_SPLIT_NOCOLOR : rank % 2, -rank, &half, nullptr));
  expect((half == nullptr) == is_last, "no color gives no communicator");
  DeviceFloats x({value(rank, 0)}, stream), all(static_cast<size_t>(num_ranks));
  if (half != nullptr) {
    int size = 0, place = 0;
    MUST(ncclCommCount(half, &size));
    MUST(ncclCommUserRank(half, &place));
    MUST(ncclAllGather(x.data(), all.data(), 1, ncclFloat32, half, stream));
    std::vector<float> got = all.read(stream);
    std::vector<int> members;
    for (int other = num_ranks - 2; other >= 0; --other) {
      if (other % 2 == rank % 2) members.push_back(other);
    }
    expect(size == static_cast<int>(members.size()) && members[static_cast<size_t>(place)] == rank,
           "rank in the split");
    for (size_t i = 0; i < members.size(); ++i) expect(got[i] == value(members[i], 0), "gather in the split");
    MUST(ncclCommDestroy(half));
  }
  MUST(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, world, stream));
  MUST(cudaStreamSynchronize(stream));
}

void check_bf16(int num_ranks, const ncclUniqueId& id, int rank) {
  World world(num_ranks, id, rank);
  Stream stream;
  // 256 + 1 + 1 + 1: summed in bf16 it would stay 256, rounded once it is 260 (259 lies between 258 and 260, to even).
  __nv_bfloat16 mine = __float2bfloat16_rn(rank == 0 ? 256.0F : 1.0F), got;
  DeviceFloats x(1);
  MUST(cudaMemcpyAsync(x.data(), &mine, sizeof mine, cudaMemcpyHostToDevice, stream));
  MUST(ncclAllReduce(x.data(), x.data(), 1, ncclBfloat16, ncclSum, world, stream));
  MUST(cudaMemcpyAsync(&got, x.data(), sizeof got, cudaMemcpyDeviceToHost, stream));
  expect(__bfloat162float(got) == 260.0F, "a sum in f32, rounded once");
}

void well(const std::vector<Ended>& ended) { CHECK_MESSAGE(all_well(ended), all_said(ended)); }

}  // namespace

TEST_CASE("collectives are right between threads and between processes") {
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) {
    for (int num_ranks : {1, 2, 4}) {
      // The last is more than members show each other at once.
      for (size_t count : {size_t{1}, size_t{33}, size_t{70'000}}) {
        CAPTURE(num_ranks);
        CAPTURE(count);
        well(run_ranks(kind, num_ranks, {},
                       [&](int rank, const ncclUniqueId& id) { check_collectives(num_ranks, id, rank, count); }));
      }
    }
  }
}

TEST_CASE("sends and receives of a group go on together, uneven ones too") {
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) {
    well(run_ranks(kind, 4, {}, [](int rank, const ncclUniqueId& id) { check_uneven_exchange(4, id, rank); }));
  }
}

TEST_CASE("a split orders by key, and leaves out who has no color") {
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) {
    well(run_ranks(kind, 5, {}, [](int rank, const ncclUniqueId& id) { check_split(5, id, rank); }));
  }
}

TEST_CASE("sums of bf16 are rounded once") {
  well(run_ranks(RanksAre::kThreads, 4, {}, [](int rank, const ncclUniqueId& id) { check_bf16(4, id, rank); }));
}

TEST_CASE("a communicator that does not block has to be asked") {
  auto run = [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t world = nullptr;
    auto ready = [&](ncclResult_t result) {
      expect(result == ncclSuccess || result == ncclInProgress, "success or in progress");
      do MUST(ncclCommGetAsyncError(world, &result));
      while (result == ncclInProgress);
      MUST(result);
    };
    ready(ncclCommInitRankConfig(&world, 3, id, rank, &config));
    Stream stream;
    DeviceFloats x({value(rank, 0)}, stream);
    bool in_progress = false;
    for (int i = 0; i < 20; ++i) {
      ncclResult_t result = ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclMax, world, stream);
      in_progress = in_progress || result == ncclInProgress;
      if (result == ncclInProgress) {
        expect(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclMax, world, stream) == ncclInvalidArgument,
               "nothing more is taken before that");
      }
      ready(result);
    }
    expect(in_progress, "in progress at times");
    expect(x.read(stream)[0] == value(2, 0), "maximum");
    MUST(ncclCommDestroy(world));
  };
  for (RanksAre kind : {RanksAre::kThreads, RanksAre::kProcesses}) well(run_ranks(kind, 3, {}, run));
}

TEST_CASE("nothing starts before the group ends") {
  well(run_ranks(RanksAre::kThreads, 2, {}, [](int rank, const ncclUniqueId& id) {
    World world(2, id, rank);
    Stream stream;
    DeviceFloats x({value(rank, 0)}, stream);
    MUST(cudaStreamSynchronize(stream));
    MUST(ncclGroupStart());
    MUST(ncclAllReduce(x.data(), x.data(), 1, ncclFloat32, ncclSum, world, stream));
    MUST(cudaStreamSynchronize(stream));
    expect(x.read(stream)[0] == value(rank, 0), "the old value");
    MUST(ncclGroupEnd());
    expect(x.read(stream)[0] == value(0, 0) + value(1, 0), "the sum");
  }));
}

TEST_CASE("one thread may make the communicators of several devices in a group") {
  well(run_ranks(RanksAre::kThreads, 1, {}, [](int /*rank*/, const ncclUniqueId& id) {
    ncclComm_t both[2] = {};
    MUST(ncclGroupStart());
    for (int device = 0; device < 2; ++device) {
      MUST(cudaSetDevice(device));
      MUST(ncclCommInitRank(&both[device], 2, id, device));
    }
    MUST(ncclGroupEnd());
    for (ncclComm_t communicator : both) MUST(ncclCommDestroy(communicator));
  }));
}

TEST_CASE("windows lie at the same place on every rank") {
  auto run = [](bool same) {
    return run_ranks(RanksAre::kThreads, 2, {}, [same](int rank, const ncclUniqueId& id) {
      World world(2, id, rank);
      void* memory = nullptr;
      MUST(ncclMemAlloc(&memory, 16384));
      auto* buffer = static_cast<std::byte*>(memory) + (same || rank == 0 ? 4096 : 8192);
      ncclWindow_t window = nullptr;
      ncclResult_t result = ncclCommWindowRegister(world, buffer, 4096, &window, NCCL_WIN_COLL_SYMMETRIC);
      if (result == ncclSuccess) MUST(ncclCommWindowDeregister(world, window));
      MUST(ncclMemFree(memory));
      MUST(result);
    });
  };
  well(run(true));
  std::vector<Ended> ended = run(false);
  CHECK(!all_well(ended));
  CHECK(all_said(ended).find("registers 4096 bytes at offset 4096 of its allocation, rank 1 4096 bytes at 8192") !=
        std::string::npos);
}

}  // namespace fake_cuda::testing
