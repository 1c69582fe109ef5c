// Functions of NCCL that make and end communicators.
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/nccl_group.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

ncclResult_t refuse(ncclResult_t result, const std::string& sentence) {
  last_nccl_error() = sentence;
  say(sentence);
  return fail_group(result);
}

// The rank that messages and planted failures call a device by.
void name_device(Device& device, int rank) {
  std::lock_guard lock(machine().mutex);
  auto made = std::count_if(machine().communicators.begin(), machine().communicators.end(),
                            [&](const auto& other) { return other->device == &device; });
  if (made == 1) device.rank = rank;
}

bool is_config(const ncclConfig_t* config) {
  const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  return config == nullptr || config->magic == initial.magic;
}

ncclResult_t init_rank(const char* call, ncclComm_t* made, int num_ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  *made = nullptr;
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call(call, planted); result != ncclSuccess) return fail_group(result);
  std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  if (num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return refuse(ncclInvalidArgument, fmt::format("{}: rank {} of {}", call, rank, num_ranks));
  }
  if (!is_meeting_place_name(name)) {
    return refuse(ncclInvalidArgument, fmt::format("{}: the id was not made by ncclGetUniqueId", call));
  }
  if (!is_config(config)) {
    return refuse(ncclInvalidArgument, fmt::format("{}: the config was not made by NCCL_CONFIG_INITIALIZER", call));
  }
  ncclComm& communicator = new_communicator(config);
  communicator.rank = rank;
  communicator.num_ranks = num_ranks;
  communicator.meeting_name = name;
  name_device(*communicator.device, rank);
  *made = &communicator;
  return add_to_group(communicator, call);
}

bool is_split_from(const ncclComm& parent) {
  std::lock_guard lock(machine().mutex);
  const auto& all = machine().communicators;
  return std::any_of(all.begin(), all.end(), [&](const auto& made) {
    return made->parent == &parent && made->state == ncclComm::State::kSplitting && !made->ended;
  });
}

// What was issued on it is done, or the communicator cannot do it any more.
void wait_for_work(const char* call, ncclComm& communicator) {
  run_until(call, *communicator.device,
            [&] { return communicator.num_issued == communicator.num_done || communicator.failure() != ncclSuccess; });
}

// The library waits for ever for graphs that hold its work.
void check_graphs(const char* call, const ncclComm& communicator) {
  if (communicator.captured.use_count() == 1) return;
  die("{} of communicator {}: a graph that captured its work has not been destroyed", call, communicator.name());
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = machine().settings.nccl_version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call("ncclGetUniqueId", planted); result != ncclSuccess) return result;
  remove_stale_meeting_places();
  std::memset(id, 0, sizeof *id);
  std::string name = new_meeting_place_name();
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int num_ranks, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", communicator, num_ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init_rank("ncclCommInitRankConfig", communicator, num_ranks, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  const char* call = "ncclCommSplit";
  *made = nullptr;
  std::optional<Failure> planted;
  if (ncclResult_t result = before_nccl_call(call, planted); result != ncclSuccess) return fail_group(result);
  check_communicator(call, parent);
  if (ncclResult_t result = parent->check_usable(call); result != ncclSuccess) return fail_group(result);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return refuse(ncclInvalidArgument, fmt::format("{}: color {}", call, color));
  uint64_t round = parent->num_notes++;
  bool told = false;
  // With no color there is nothing to ask for later, so this waits.
  while (!told || (color == NCCL_SPLIT_NOCOLOR && !parent->place->hear(parent->rank, round))) {
    if (parent->failure() != ncclSuccess || parent->aborted) return fail_group(parent->failure());
    Note note{static_cast<uint64_t>(color), static_cast<uint64_t>(key)};
    // What it told before the last time may not have been heard by all.
    told = told || parent->place->tell(parent->rank, round, note);
    parent->look_for_lost_peers();
    run_some(*parent->device);
  }
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  ncclComm& communicator = new_communicator(config);
  if (config == nullptr) communicator.blocking = parent->blocking;
  communicator.state = ncclComm::State::kSplitting;
  communicator.parent = parent;
  communicator.split_round = round;
  communicator.color = color;
  communicator.key = key;
  *made = &communicator;
  return add_to_group(communicator, call);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  check_communicator("ncclCommGetAsyncError", communicator);
  if (communicator->state != ncclComm::State::kReady) {
    *error = communicator->advance_making();
    return ncclSuccess;
  }
  communicator->look_for_lost_peers();
  std::vector<std::function<void()>> begins;
  {
    std::lock_guard lock(communicator->mutex);
    *error = communicator->error;
    if (*error == ncclSuccess && communicator->num_asks_left > 0) {
      if (--communicator->num_asks_left > 0) {
        *error = ncclInProgress;
        return ncclSuccess;
      }
      begins.swap(communicator->deferred);
    }
  }
  for (const std::function<void()>& begin : begins) begin();
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t communicator) {
  if (communicator == nullptr) return last_nccl_error().c_str();
  thread_local std::string sentence;
  std::lock_guard lock(communicator->mutex);
  sentence = communicator->last_error;
  return sentence.c_str();
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  check_communicator("ncclCommFinalize", communicator);
  if (ncclResult_t result = communicator->check_usable("ncclCommFinalize"); result != ncclSuccess) return result;
  check_graphs("ncclCommFinalize", *communicator);
  wait_for_work("ncclCommFinalize", *communicator);
  communicator->finalized = true;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  check_communicator("ncclCommDestroy", communicator);
  if (!communicator->registered.empty()) {
    die("ncclCommDestroy: {} buffers are still registered with communicator {}", communicator->registered.size(),
        communicator->name());
  }
  if (communicator->state == ncclComm::State::kReady) wait_for_work("ncclCommDestroy", *communicator);
  communicator->ended = true;
  if (!communicator->place) return ncclSuccess;
  communicator->place->leave(communicator->rank, MemberState::kLeft);
  // Its memory is needed while work still looks at it, or a split.
  bool is_needed = communicator->num_issued != communicator->num_done || is_split_from(*communicator);
  if (!is_needed) communicator->place = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  check_communicator("ncclCommAbort", communicator);
  check_graphs("ncclCommAbort", *communicator);
  communicator->aborted = true;
  communicator->ended = true;
  if (communicator->place) communicator->place->leave(communicator->rank, MemberState::kAborted);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  check_communicator("ncclCommCount", communicator);
  *count = communicator->num_ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  check_communicator("ncclCommUserRank", communicator);
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t communicator, int* device) {
  check_communicator("ncclCommCuDevice", communicator);
  *device = communicator->device->index;
  return ncclSuccess;
}

}  // extern "C"
