#include "tests/fake_cuda/meeting_place.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

constexpr std::string_view kPrefix = "fake_nccl.";

constexpr uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
constexpr uint64_t kPage = 4096;

// Ended, or ended and not yet waited for by its parent.
bool has_ended(pid_t pid) {
  if (pid == getpid()) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;
  size_t state = text.rfind(')');
  return state == std::string::npos || state + 2 >= text.size() || text[state + 2] == 'Z' || text[state + 2] == 'X';
}

}  // namespace

MeetingPlace::MeetingPlace(const std::string& name, int num_ranks) : name_(name), num_ranks_(num_ranks) {
  int file = shm_open(("/" + name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) die("no shared memory {} for a communicator: {}", name, std::strerror(errno));
  struct stat found = {};
  auto wanted = static_cast<off_t>(total_bytes());
  // A new file is full of zeros, which is how everything in it begins.
  if (fstat(file, &found) != 0 || (found.st_size < wanted && ftruncate(file, wanted) != 0)) {
    die("{} bytes of shared memory for a communicator of {} ranks: {}", wanted, num_ranks, std::strerror(errno));
  }
  void* memory = mmap(nullptr, total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) die("shared memory for a communicator: {}", std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
}

MeetingPlace::~MeetingPlace() { munmap(memory_, total_bytes()); }

std::string MeetingPlace::join(int rank, const std::string& device) {
  int32_t none = 0;
  if (!header().num_ranks.compare_exchange_strong(none, num_ranks_) && none != num_ranks_) {
    return fmt::format("rank {} says that there are {} ranks, another says {}", rank, num_ranks_, none);
  }
  MemberState absent = MemberState::kAbsent;
  Member& own = member(rank);
  if (!own.state.compare_exchange_strong(absent, MemberState::kJoined)) {
    return fmt::format("two ranks say that they are rank {}", rank);
  }
  own.pid = getpid();
  std::strncpy(own.device, device.c_str(), sizeof own.device - 1);
  ++header().num_joined;
  return "";
}

bool MeetingPlace::is_complete() {
  if (header().num_joined < num_ranks_) return false;
  remove_name();
  return true;
}

void MeetingPlace::remove_name() {
  if (!name_.empty()) shm_unlink(("/" + name_).c_str());
  name_.clear();
}

std::string MeetingPlace::shared_device() const {
  for (int a = 0; a < num_ranks_; ++a) {
    for (int b = a + 1; b < num_ranks_; ++b) {
      if (std::strcmp(member(a).device, member(b).device) == 0) {
        return fmt::format("Duplicate GPU detected : rank {} and rank {} both on {}", a, b, member(a).device);
      }
    }
  }
  return "";
}

std::vector<int> MeetingPlace::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (state(rank) == MemberState::kAbsent) ranks.push_back(rank);
  }
  return ranks;
}

void MeetingPlace::leave(int rank, MemberState state) {
  member(rank).state = state;
  remove_name();
}

MemberState MeetingPlace::state(int rank) const { return member(rank).state; }
bool MeetingPlace::is_dead(int rank) const { return member(rank).pid != 0 && has_ended(member(rank).pid); }

bool MeetingPlace::may_show(uint64_t round) const {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (member(rank).seen.load(std::memory_order_acquire) + 1 < round) return false;
  }
  return true;
}

std::byte* MeetingPlace::own_page(int rank, uint64_t round) { return const_cast<std::byte*>(page(rank, round)); }

void MeetingPlace::show(int rank, uint64_t round, const Announced& announced) {
  member(rank).announced[round % 2] = announced;
  member(rank).shown.store(round + 1, std::memory_order_release);
}

std::vector<int> MeetingPlace::not_shown(uint64_t round) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (member(rank).shown.load(std::memory_order_acquire) <= round) ranks.push_back(rank);
  }
  return ranks;
}

bool MeetingPlace::all_shown(uint64_t round) const {
  for (int rank = 0; rank < num_ranks_; ++rank) {
    if (member(rank).shown.load(std::memory_order_acquire) <= round) return false;
  }
  return true;
}

const std::byte* MeetingPlace::page(int rank, uint64_t round) const {
  return memory_ + pages_at() + (static_cast<uint64_t>(rank) * 2 + round % 2) * kShown;
}

const Announced& MeetingPlace::announced(int rank, uint64_t round) const { return member(rank).announced[round % 2]; }

void MeetingPlace::seen(int rank, uint64_t round) { member(rank).seen.store(round + 1, std::memory_order_release); }

bool MeetingPlace::tell(int rank, uint64_t round, const Note& note) {
  for (int other = 0; other < num_ranks_; ++other) {
    if (member(other).heard.load(std::memory_order_acquire) + 1 < round) return false;
  }
  member(rank).notes[round % 2] = note;
  member(rank).told.store(round + 1, std::memory_order_release);
  return true;
}

std::optional<std::vector<Note>> MeetingPlace::hear(int rank, uint64_t round) {
  std::vector<Note> notes;
  for (int other = 0; other < num_ranks_; ++other) {
    if (member(other).told.load(std::memory_order_acquire) <= round) return std::nullopt;
    notes.push_back(member(other).notes[round % 2]);
  }
  member(rank).heard.store(round + 1, std::memory_order_release);
  return notes;
}

MeetingPlace::Channel& MeetingPlace::channel(int from, int to) {
  return reinterpret_cast<Channel*>(memory_ + channels_at())[pair(from, to)];
}

std::byte* MeetingPlace::channel_page(int from, int to) {
  return memory_ + channel_pages_at() + pair(from, to) * kSent;
}

MeetingPlace::Member& MeetingPlace::member(int rank) const {
  return reinterpret_cast<Member*>(memory_ + round_up(sizeof(Header), 64))[rank];
}

uint64_t MeetingPlace::channels_at() const {
  return round_up(round_up(sizeof(Header), 64) + static_cast<uint64_t>(num_ranks_) * sizeof(Member), 64);
}

uint64_t MeetingPlace::pages_at() const {
  auto n = static_cast<uint64_t>(num_ranks_);
  return round_up(channels_at() + n * n * sizeof(Channel), kPage);
}

uint64_t MeetingPlace::channel_pages_at() const { return pages_at() + static_cast<uint64_t>(num_ranks_) * 2 * kShown; }

uint64_t MeetingPlace::total_bytes() const {
  auto n = static_cast<uint64_t>(num_ranks_);
  return channel_pages_at() + n * n * kSent;
}

void remove_stale_meeting_places() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    std::string name = entry.path().filename();
    if (!is_meeting_place_name(name)) continue;
    if (has_ended(static_cast<pid_t>(std::atoi(name.c_str() + kPrefix.size()))))
      std::filesystem::remove(entry, ignored);
  }
}

std::string new_meeting_place_name() {
  static std::atomic<int> count{0};
  auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}{}.{}.{:x}", kPrefix, getpid(), ++count, now);
}

bool is_meeting_place_name(const std::string& name) { return name.starts_with(kPrefix); }

}  // namespace fake_cuda
