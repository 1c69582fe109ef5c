#include "runtime/cuda/nccl_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>

#include "compiler/core/check.h"
#include "runtime/cuda/check_nccl.h"

namespace tpc::cuda {
namespace {

constexpr std::chrono::microseconds kPoll{100};
// How long the end of a run may take before it is forced.
constexpr std::chrono::milliseconds kFarewell{5'000};

std::string_view function_of(std::string_view call) { return call.substr(0, call.find('(')); }

// Whoever finds something in a call that has no answer yet comes back to it.
ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

std::string make_unique_id() {
  ncclUniqueId id;
  TPC_NCCL(ncclGetUniqueId(&id));
  return {id.internal, sizeof id.internal};
}

NcclWorld::NcclWorld(NcclOptions options) : options_(std::move(options)) {
  ncclUniqueId id;
  TPC_CHECK(options_.unique_id.size() == sizeof id.internal, "a unique id of {} bytes", options_.unique_id.size());
  std::memcpy(id.internal, options_.unique_id.data(), sizeof id.internal);
  ncclConfig_t config = non_blocking();
  ncclResult_t status = ncclCommInitRankConfig(&world_, static_cast<int>(options_.world_size), id,
                                               static_cast<int>(options_.rank), &config);
  std::vector<int64_t> all(static_cast<size_t>(options_.world_size));
  std::iota(all.begin(), all.end(), 0);
  members_[all].communicator = world_;
  try {
    check(status, "ncclCommInitRankConfig", world_);
  } catch (...) {
    static_cast<void>(ncclCommAbort(world_));
    throw;
  }
}

NcclWorld::~NcclWorld() {
  if (!finish()) abort();
}

void NcclWorld::abort() {
  has_failed_ = true;
  for (auto& [group, member] : members_) {
    if (member.communicator != nullptr) static_cast<void>(ncclCommAbort(member.communicator));
  }
  members_.clear();
}

// Ends the communicators together with the peers; false when that cannot be.
bool NcclWorld::finish() {
  if (has_failed_) return false;
  try {
    forget_memory();
    // Those that were split off first.
    auto finalize = [&](ncclComm_t communicator) {
      check(ncclCommFinalize(communicator), "ncclCommFinalize", communicator);
    };
    for (auto& [group, member] : members_) {
      if (member.communicator != world_) finalize(member.communicator);
    }
    finalize(world_);
  } catch (...) {
    return false;
  }
  for (auto& [group, member] : members_) static_cast<void>(ncclCommDestroy(member.communicator));
  return true;
}

ncclComm_t NcclWorld::communicator_of(const std::vector<int64_t>& group, int64_t index) {
  auto known = members_.find(group);
  if (known != members_.end()) return known->second.communicator;
  ncclConfig_t config = non_blocking();
  config.splitShare = 1;
  // A member from here on, so that it is aborted with the others when what follows fails.
  Member& member = members_[group];
  // The groups of one kind part the world: each is named by its first rank.
  ncclResult_t status =
      ncclCommSplit(world_, static_cast<int>(group[0]), static_cast<int>(index), &member.communicator, &config);
  check(status, "ncclCommSplit", world_);
  if (member.communicator != nullptr) await(member.communicator, "ncclCommSplit");
  use_memory_in(member);
  return member.communicator;
}

void NcclWorld::use_memory(void* data, int64_t bytes) {
  memory_ = data;
  memory_bytes_ = bytes;
  for (auto& [group, member] : members_) use_memory_in(member);
}

void NcclWorld::forget_memory() {
  // The run is over.
  options_.timeout = std::min(options_.timeout, kFarewell);
  if (memory_bytes_ == 0) return;
  memory_bytes_ = 0;
  for (auto& [group, member] : members_) {
    if (member.window != nullptr) {
      check(ncclCommWindowDeregister(member.communicator, member.window), "ncclCommWindowDeregister",
            member.communicator);
    }
    if (member.registration != nullptr) {
      check(ncclCommDeregister(member.communicator, member.registration), "ncclCommDeregister", member.communicator);
    }
    member.window = nullptr;
    member.registration = nullptr;
  }
}

void NcclWorld::use_memory_in(Member& member) {
  if (memory_bytes_ == 0) return;
  auto size = static_cast<size_t>(memory_bytes_);
  if (options_.symmetric_memory) {
    check(ncclCommWindowRegister(member.communicator, memory_, size, &member.window, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister", member.communicator);
  } else {
    check(ncclCommRegister(member.communicator, memory_, size, &member.registration), "ncclCommRegister",
          member.communicator);
  }
}

void NcclWorld::check(ncclResult_t status, const char* call, ncclComm_t communicator) {
  if (status == ncclSuccess) return;
  if (status == ncclInProgress) {
    await(communicator, call);
    return;
  }
  has_failed_ = true;
  check_nccl(status, call, communicator);
}

void NcclWorld::await(ncclComm_t communicator, const char* call) {
  auto start = std::chrono::steady_clock::now();
  while (true) {
    ncclResult_t status = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(communicator, &status), "ncclCommGetAsyncError", communicator);
    if (status == ncclSuccess) return;
    if (status != ncclInProgress) {
      has_failed_ = true;
      check_nccl(status, call, communicator);
    }
    poll();
    if (std::chrono::steady_clock::now() - start > options_.timeout) {
      has_failed_ = true;
      throw DeviceError(fmt::format("{} has no answer after {:.1f} s: a rank does not come", function_of(call),
                                    static_cast<double>(options_.timeout.count()) / 1e3));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void NcclWorld::poll() {
  try {
    if (options_.check_run) options_.check_run();
    for (auto& [group, member] : members_) {
      if (member.communicator == nullptr) continue;
      ncclResult_t status = ncclSuccess;
      check_nccl(ncclCommGetAsyncError(member.communicator, &status), "ncclCommGetAsyncError", member.communicator);
      check_nccl(status, "a collective of NCCL", member.communicator);
    }
  } catch (...) {
    has_failed_ = true;
    throw;
  }
}

}  // namespace tpc::cuda
