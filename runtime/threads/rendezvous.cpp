#include "runtime/threads/rendezvous.h"

#include <fmt/format.h>

#include <thread>

namespace tpc {
namespace {

// Waking a sleeping thread takes 5 to 50 us, so watching pays for about that long.
constexpr auto kWatchTime = std::chrono::microseconds(50);
// Where the peers' cores are taken by other work, watching keeps the peers from running. After a failure the next
// 2^failures - 1 arrivals do without; this bounds the exponent.
constexpr int kMaxFailures = 7;
constexpr int kPausesPerClockRead = 16;

void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Rendezvous::Rendezvous(std::vector<int64_t> ranks, RendezvousOptions options, const std::atomic<bool>& ended)
    : ranks_(std::move(ranks)), options_(options), ended_(ended), slots_(std::make_unique<Slot[]>(ranks_.size())) {}

bool Rendezvous::have_arrived(uint64_t count) const {
  for (size_t member = 0; member < ranks_.size(); ++member) {
    if (slots_[member].arrivals.load(std::memory_order_seq_cst) < count) return false;
  }
  return true;
}

bool Rendezvous::watch(Slot& slot, uint64_t count) const {
  if (slot.num_unwatched > 0) {
    --slot.num_unwatched;
    return false;
  }
  auto until = std::chrono::steady_clock::now() + kWatchTime;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (have_arrived(count)) {
        slot.num_failures = 0;
        return true;
      }
      pause_core();
    }
  } while (std::chrono::steady_clock::now() < until && !ended_.load(std::memory_order_acquire));
  if (slot.num_failures < kMaxFailures) ++slot.num_failures;
  slot.num_unwatched = (1 << slot.num_failures) - 1;
  return false;
}

void Rendezvous::arrive(size_t member, const Announcement& announcement) {
  Slot& slot = slots_[member];
  uint64_t count = slot.arrivals.load(std::memory_order_relaxed) + 1;
  slot.announcement.store(&announcement, std::memory_order_relaxed);
  slot.arrivals.store(count, std::memory_order_seq_cst);

  // Arrivals and sleepers_ are sequentially consistent: of the members, at least the one whose arrival is last in that
  // order sees all the others here, and either it sees a sleeper or the sleeper sees its arrival.
  if (have_arrived(count)) {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
    return;
  }
  if (options_.spin && watch(slot, count)) return;

  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool is_done = arrived_.wait_for(lock, options_.timeout,
                                   [&] { return have_arrived(count) || ended_.load(std::memory_order_acquire); });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  lock.unlock();
  if (have_arrived(count)) return;
  if (is_done || ended_.load(std::memory_order_acquire)) throw RunEnded();
  throw_missing(member, count);
}

void Rendezvous::wake() {
  // Taking the mutex makes sure that a sleeper that has checked its condition is really asleep.
  { std::lock_guard lock(mutex_); }
  arrived_.notify_all();
}

void Rendezvous::throw_missing(size_t member, uint64_t count) const {
  std::string missing;
  for (size_t other = 0; other < ranks_.size(); ++other) {
    if (slots_[other].arrivals.load(std::memory_order_acquire) >= count) continue;
    const Announcement* last = slots_[other].announcement.load(std::memory_order_acquire);
    std::string place = last == nullptr ? "nothing" : last->description;
    missing += fmt::format("{}rank {} (its last there: {})", missing.empty() ? "" : ", ", ranks_[other], place);
  }
  throw DeviceError(fmt::format("rank {} waited {} s at {}; missing: {}", ranks_[member],
                                static_cast<double>(options_.timeout.count()) / 1000.0, announced(member).description,
                                missing));
}

ThreadWorld::ThreadWorld(int64_t world_size, RendezvousOptions options) : world_size_(world_size), options_(options) {
  TPC_CHECK(world_size >= 1, "a world of {} ranks", world_size);
}

Rendezvous& ThreadWorld::rendezvous(const std::vector<int64_t>& ranks) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Rendezvous>& place = groups_[ranks];
  if (!place) place = std::make_unique<Rendezvous>(ranks, options_, ended_);
  return *place;
}

Announcement& ThreadWorld::keep(Announcement announcement) {
  std::lock_guard lock(mutex_);
  return announcements_.emplace_back(std::move(announcement));
}

void ThreadWorld::fail(std::exception_ptr failure) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = std::move(failure);
  ended_.store(true, std::memory_order_seq_cst);
  for (auto& [ranks, place] : groups_) place->wake();
}

void ThreadWorld::rethrow_failure() const {
  std::exception_ptr failure;
  {
    std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tpc
