#include "tests/fake_cuda/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/fake_cuda/call.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

using namespace fake_cuda;

namespace {

using std::chrono::steady_clock;

constexpr int kMostAsks = 3;
// Whether a process lives is read from a file.
constexpr std::chrono::milliseconds kBetweenLooks{10};

std::string host() {
  if (const char* id = std::getenv("NCCL_HOSTID")) return id;
  char name[64] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

// Those of one color, by key, then by rank in the parent.
void take_place_in_split(ncclComm& made, const std::vector<Note>& notes) {
  std::vector<std::pair<int, int>> members;  // key, rank in the parent
  for (size_t i = 0; i < notes.size(); ++i) {
    if (static_cast<int>(notes[i][0]) == made.color)
      members.emplace_back(static_cast<int>(notes[i][1]), static_cast<int>(i));
  }
  std::sort(members.begin(), members.end());
  auto own = std::find(members.begin(), members.end(), std::pair{made.key, made.parent->rank});
  made.rank = static_cast<int>(own - members.begin());
  made.num_ranks = static_cast<int>(members.size());
  made.meeting_name = fmt::format("{}.s{}.c{}", made.parent->meeting_name, made.split_round, made.color);
}

}  // namespace

std::string ncclComm::name() const {
  return fmt::format("{} of rank {} of {} on device {}", number, rank, num_ranks, device->index);
}

ncclResult_t ncclComm::advance_making() {
  std::lock_guard lock(mutex);
  if (state == State::kReady) return ncclSuccess;
  if (state == State::kFailed) return error;
  auto refuse = [&](ncclResult_t result, const std::string& sentence) {
    state = State::kFailed;
    last_error = sentence;
    if (place) place->remove_name();
    say(sentence);
    return error = result;
  };
  if (state == State::kSplitting) {
    std::optional<std::vector<Note>> notes = parent->place->hear(parent->rank, split_round);
    if (!notes) return ncclInProgress;
    take_place_in_split(*this, *notes);
    state = State::kJoining;
  }
  if (!place) {
    place = std::make_unique<MeetingPlace>(meeting_name, num_ranks);
    std::string gpu = fmt::format("CUDA device {} of {}", device->physical, host());
    if (std::string why = place->join(rank, gpu); !why.empty()) return refuse(ncclInvalidArgument, why);
  }
  if (!place->is_complete()) {
    for (int peer = 0; peer < num_ranks && machine().settings.remote_error.count() >= 0; ++peer) {
      MemberState found = place->state(peer);
      if (found == MemberState::kAborted || (found == MemberState::kJoined && place->is_dead(peer))) {
        return refuse(ncclRemoteError, fmt::format("rank {} has ended before the communicator was made", peer));
      }
    }
    return ncclInProgress;
  }
  if (std::string why = place->shared_device(); !why.empty()) return refuse(ncclInvalidUsage, why);
  num_sent.resize(static_cast<size_t>(num_ranks));
  num_received.resize(static_cast<size_t>(num_ranks));
  state = State::kReady;
  return ncclSuccess;
}

ncclResult_t ncclComm::check_usable(const char* call) {
  std::lock_guard lock(mutex);
  if (error != ncclSuccess) return error;
  if (state == State::kReady && num_asks_left == 0 && !finalized) return ncclSuccess;
  last_error =
      fmt::format("{}: communicator {} {}", call, name(),
                  finalized ? "was finalized" : "is used before the operation before it has returned ncclSuccess");
  say(last_error);
  return ncclInvalidArgument;
}

void ncclComm::fail(ncclResult_t result, const std::string& sentence) {
  {
    std::lock_guard lock(mutex);
    if (error != ncclSuccess) return;
    error = result;
    last_error = sentence;
  }
  say(fmt::format("rank {}: {}", rank, sentence));
}

ncclResult_t ncclComm::failure() const {
  std::lock_guard lock(mutex);
  return error;
}

std::string ncclComm::failure_sentence() const {
  std::lock_guard lock(mutex);
  return last_error;
}

void ncclComm::look_for_lost_peers() {
  std::chrono::milliseconds delay = machine().settings.remote_error;
  if (delay.count() < 0 || state != State::kReady) return;
  steady_clock::time_point now = steady_clock::now();
  {
    std::lock_guard lock(mutex);
    if (now - looked_for_peers_at < kBetweenLooks) return;
    looked_for_peers_at = now;
  }
  bool waits = num_issued != num_done;
  std::optional<int> lost;
  for (int peer = 0; peer < num_ranks && !lost; ++peer) {
    MemberState found = place->state(peer);
    bool is_lost = found == MemberState::kAborted || (found == MemberState::kLeft && waits) ||
                   (found == MemberState::kJoined && place->is_dead(peer));
    if (peer != rank && is_lost) lost = peer;
  }
  if (!lost) return;
  {
    std::lock_guard lock(mutex);
    if (!peer_lost_at) peer_lost_at = now;
    if (now - *peer_lost_at < delay) return;
  }
  fail(ncclRemoteError, fmt::format("rank {} of the communicator has ended", *lost));
}

void ncclComm::defer(std::function<void()> issue) {
  {
    std::lock_guard lock(mutex);
    if (!blocking && num_asks_left == 0 && random() % 2 == 0)
      num_asks_left = 1 + static_cast<int>(random() % kMostAsks);
    if (num_asks_left > 0) {
      deferred.push_back(std::move(issue));
      return;
    }
  }
  issue();
}

std::vector<Note> ncclComm::exchange(const char* call, const Note& note) {
  uint64_t round_of_notes = num_notes++;
  steady_clock::time_point end = steady_clock::now() + machine().settings.stuck;
  bool told = false;
  while (true) {
    told = told || place->tell(rank, round_of_notes, note);
    if (told) {
      if (std::optional<std::vector<Note>> notes = place->hear(rank, round_of_notes)) return *notes;
    }
    if (steady_clock::now() > end) die("{}: communicator {} waits for ever for its other ranks", call, name());
    run_some(*device);
  }
}

namespace fake_cuda {

void check_communicator(const char* call, ncclComm_t communicator) {
  if (communicator == nullptr) die("{}: no communicator", call);
  if (communicator->ended) die("{}: communicator {} was destroyed or aborted", call, communicator->name());
}

ncclComm& new_communicator(const ncclConfig_t* config) {
  Device& device = this_device();
  std::lock_guard lock(machine().mutex);
  ncclComm& made = *machine().communicators.emplace_back(std::make_unique<ncclComm>());
  made.device = &device;
  for (const auto& other : machine().communicators) made.number += other->device == &device ? 1 : 0;
  made.blocking = config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking != 0;
  made.random.seed(machine().settings.seed * 31 + static_cast<uint64_t>(device.physical));
  return made;
}

ncclResult_t finish_making(const char* call, ncclComm& communicator) {
  steady_clock::time_point end = steady_clock::now() + machine().settings.stuck;
  while (true) {
    ncclResult_t result = communicator.advance_making();
    if (result != ncclInProgress) return result;
    if (steady_clock::now() > end) {
      if (communicator.place) communicator.place->remove_name();
      die("{}: rank {} waits for ever for {}", call, communicator.rank,
          communicator.place ? "ranks " + list(communicator.place->absent()) : "the other ranks of the split one");
    }
    // What was issued before goes on, as on a GPU.
    run_some(*communicator.device);
  }
}

std::string& last_nccl_error() {
  thread_local std::string sentence;
  return sentence;
}

ncclResult_t before_nccl_call(const char* call, std::optional<Failure>& planted) {
  if (driver_error() != cudaSuccess) return ncclUnhandledCudaError;
  Device& device = this_device();
  planted = planted_failure(call, device.rank);
  std::lock_guard lock(machine().mutex);
  if (device.sticky != cudaSuccess) return ncclUnhandledCudaError;
  if (planted && planted->kind == FailureKind::kStatus) return nccl_error(planted->status, ncclSystemError);
  return ncclSuccess;
}

}  // namespace fake_cuda
