#include "tests/emulation/block_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/emulation/sanitizers.h"

namespace gpu {
namespace {

constexpr unsigned kLanes = 32;

thread_local BlockRunner* runner = nullptr;

// For the thread sanitizer: threads that have ended happen before what the host does after the grid, and not before
// other blocks; fences are ordered among themselves.
char end_edge;
char fence_edge;

unsigned lane_bit(unsigned lane) { return 1u << lane; }

}  // namespace

thread_local const ThreadPlace* current_thread = nullptr;

BlockRunner::BlockRunner() = default;

BlockRunner& BlockRunner::running() { return *runner; }

void BlockRunner::begin_grid(const std::function<void()>* thread_body, uint64_t seed) {
  thread_body_ = thread_body;
  in_order_ = config.seed == 0;
  random_.seed(seed);
}

void BlockRunner::end_grid() {
  tsan_acquire(&end_edge);
  ended_.clear();
  kept_.clear();
}

void BlockRunner::run(uint3 block_index, dim3 block_size, dim3 grid_size, size_t dynamic_bytes) {
  shared_ = std::make_unique<SharedMemory>(dynamic_bytes);
  start_threads(block_index, block_size, grid_size);
  BlockRunner* outer = std::exchange(runner, this);
  const auto leave = [&] {
    finish_threads();
    runner = outer;
    current_thread = nullptr;
  };
  try {
    run_to_end();
    if (shared_->overrun()) throw Error("a thread wrote past the end of an array in shared memory");
  } catch (...) {
    leave();
    throw;
  }
  leave();
  // Freed memory may serve the next block, and the thread sanitizer must not take that for an order between them.
  if (kThreadSanitizer) kept_.push_back(std::move(shared_));
}

void BlockRunner::start_threads(uint3 block_index, dim3 block_size, dim3 grid_size) {
  num_threads_ = block_size.x * block_size.y * block_size.z;
  threads_.resize(std::max<size_t>(threads_.size(), num_threads_));
  order_.resize(num_threads_);
  stacks_.reserve(num_threads_);
  scheduler_.become_scheduler();
  barrier_generation_ = 0;
  for (unsigned i = 0; i < num_threads_; ++i) {
    Thread& thread = threads_[i];
    const uint3 index = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
    thread.place = {index, block_index, block_size, grid_size, i % kLanes, i / kLanes};
    thread.state = State::kReady;
    order_[i] = i;
    std::string name;
    if (kThreadSanitizer) {
      name = fmt::format("block ({}, {}, {}) thread ({}, {}, {})", block_index.x, block_index.y, block_index.z, index.x,
                         index.y, index.z);
    }
    thread.fiber.start(stacks_.at(i), Stacks::kBytes, &BlockRunner::thread_main, name.c_str());
  }
}

void BlockRunner::finish_threads() {
  for (unsigned i = 0; i < num_threads_; ++i) {
    if (threads_[i].state != State::kDone) Fiber::abandon(threads_[i].fiber, scheduler_);
    ended_.add(threads_[i].fiber);
  }
  current_ = nullptr;
}

void BlockRunner::thread_main() {
  BlockRunner& self = *runner;
  Fiber::enter(self.scheduler_);
  try {
    (*self.thread_body_)();
  } catch (...) {
    self.failure_ = std::current_exception();
  }
  tsan_release(&end_edge);
  Thread& thread = *self.current_;
  thread.state = State::kDone;
  Fiber::end(thread.fiber, self.scheduler_);
}

void BlockRunner::run_to_end() {
  while (true) {
    bool progress = false;
    if (in_order_) {
      for (unsigned begin = 0; begin < num_threads_; begin += kLanes) {
        const unsigned end = std::min(num_threads_, begin + kLanes);
        // A warp goes on alone as long as it can.
        do {
          progress |= run_ready(begin, end);
        } while (release_warp(begin, end));
      }
    } else {
      std::shuffle(order_.begin(), order_.end(), random_);
      progress = run_ready(0, num_threads_);
      for (unsigned begin = 0; begin < num_threads_; begin += kLanes) {
        progress |= release_warp(begin, std::min(num_threads_, begin + kLanes));
      }
    }
    unsigned num_live = 0;
    unsigned num_waiting = 0;
    for (unsigned i = 0; i < num_threads_; ++i) {
      num_live += threads_[i].state != State::kDone ? 1u : 0u;
      num_waiting += threads_[i].state == State::kAtBarrier ? 1u : 0u;
    }
    if (num_live == 0) return;
    if (num_waiting == num_live) {
      release_barrier(num_live);
    } else if (!progress) {
      report_deadlock(num_live, num_waiting);
    }
  }
}

bool BlockRunner::run_ready(unsigned begin, unsigned end) {
  bool progress = false;
  for (unsigned i = begin; i < end; ++i) {
    Thread& thread = threads_[order_[i]];
    if (thread.state != State::kReady) continue;
    progress = true;
    current_ = &thread;
    current_thread = &thread.place;
    Fiber::resume(scheduler_, thread.fiber);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  return progress;
}

bool BlockRunner::release_warp(unsigned begin, unsigned end) {
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    Thread& first = threads_[i];
    if (first.state != State::kAtWarpOp || !arrived(begin, end, first)) continue;
    const auto for_each_lane = [&](const auto& visit) {
      for (unsigned j = begin; j < end; ++j) {
        if ((first.mask & lane_bit(j - begin)) != 0 && threads_[j].state == State::kAtWarpOp) visit(threads_[j]);
      }
    };
    for_each_lane([&](Thread& thread) { answer(begin, end, thread); });
    for_each_lane([](Thread& thread) { thread.state = State::kReady; });
    any = true;
  }
  return any;
}

// Lanes that have returned are not waited for: hardware does not, either.
bool BlockRunner::arrived(unsigned begin, unsigned end, const Thread& first) const {
  for (unsigned j = begin; j < end; ++j) {
    const Thread& thread = threads_[j];
    if ((first.mask & lane_bit(j - begin)) == 0 || thread.state == State::kDone) continue;
    if (thread.state != State::kAtWarpOp || thread.mask != first.mask) return false;
    if (thread.op != first.op) throw Error("lanes of one mask are at different warp intrinsics");
  }
  return true;
}

void BlockRunner::answer(unsigned begin, unsigned end, Thread& thread) const {
  const auto is_there = [&](unsigned lane) {
    return begin + lane < end && (thread.mask & lane_bit(lane)) != 0 && threads_[begin + lane].state != State::kDone;
  };
  if (thread.op == WarpOp::kSync) return;
  if (thread.op == WarpOp::kShuffle) {
    if (thread.source >= kLanes || !is_there(thread.source)) {
      throw Error(fmt::format("a shuffle reads lane {}, which is not in the mask {:08x} or has returned", thread.source,
                              thread.mask));
    }
    thread.got = threads_[begin + thread.source].given;
    return;
  }
  unsigned ballot = 0;
  bool is_first = true;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (!is_there(lane)) continue;
    const WarpValue& given = threads_[begin + lane].given;
    const bool votes = thread.op == WarpOp::kMatch ? given == thread.given : given.words[0] != 0;
    if (votes) ballot |= lane_bit(lane);
    if (thread.op == WarpOp::kReduce) {
      thread.got = is_first ? given : thread.combine(thread.got, given);
      is_first = false;
    }
  }
  if (thread.op != WarpOp::kReduce) thread.got = {{ballot, 0}};
}

void BlockRunner::release_barrier(unsigned num_live) {
  if (num_live != num_threads_) {
    throw Error(fmt::format("__syncthreads() is reached by {} of {} threads; the others have returned", num_live,
                            num_threads_));
  }
  votes_ = {0, num_threads_};
  for (unsigned i = 0; i < num_threads_; ++i) {
    votes_.ayes += threads_[i].vote ? 1u : 0u;
    threads_[i].state = State::kReady;
  }
  ++barrier_generation_;
}

void BlockRunner::report_deadlock(unsigned num_live, unsigned num_waiting) const {
  std::string message = fmt::format(
      "deadlock in a block: {} of its {} threads are at __syncthreads(), the others wait in a warp intrinsic for lanes "
      "that do not come:",
      num_waiting, num_live);
  constexpr int kMaxNamed = 4;
  int named = 0;
  for (unsigned i = 0; i < num_threads_ && named < kMaxNamed; ++i) {
    if (threads_[i].state != State::kAtWarpOp) continue;
    message += fmt::format(" thread {} (mask {:08x})", i, threads_[i].mask);
    ++named;
  }
  throw Error(message);
}

BarrierVotes BlockRunner::barrier(bool vote) {
  Thread& thread = *current_;
  char* edge = shared_->barrier_edge(barrier_generation_);
  tsan_release(edge);
  thread.vote = vote;
  thread.state = State::kAtBarrier;
  Fiber::suspend(thread.fiber, scheduler_);
  tsan_acquire(edge);
  return votes_;
}

WarpValue BlockRunner::warp_op(WarpOp op, unsigned mask, WarpValue value, unsigned source, Combine combine) {
  Thread& thread = *current_;
  if ((mask & lane_bit(thread.place.lane)) == 0) fail("a warp intrinsic is called by a lane that is not in its mask");
  thread.op = op;
  thread.mask = mask;
  thread.given = value;
  thread.source = source;
  thread.combine = combine;
  thread.state = State::kAtWarpOp;
  // Of the warp intrinsics only __syncwarp orders memory.
  char* edge = shared_->warp_edge(thread.place.warp);
  if (op == WarpOp::kSync) tsan_release(edge);
  Fiber::suspend(thread.fiber, scheduler_);
  if (op == WarpOp::kSync) tsan_acquire(edge);
  return thread.got;
}

void BlockRunner::fence() {
  tsan_acquire(&fence_edge);
  tsan_release(&fence_edge);
}

void BlockRunner::fail(const std::string& message) const {
  if (current_ == nullptr) throw Error(message);
  const ThreadPlace& place = current_->place;
  throw Error(fmt::format("{} [block ({}, {}, {}), thread ({}, {}, {}), warp {}, lane {}]", message,
                          place.block_index.x, place.block_index.y, place.block_index.z, place.thread_index.x,
                          place.thread_index.y, place.thread_index.z, place.warp, place.lane));
}

}  // namespace gpu
