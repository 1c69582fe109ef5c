/// Runs blocks of CUDA threads, one after the other, on the OS thread that calls it.
#pragma once

#include <cuda_runtime.h>

#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulation/block_memory.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/gpu_emulation.h"

namespace gpu {

class BlockRunner {
 public:
  BlockRunner();

  /// The runner whose block the calling fiber belongs to.
  static BlockRunner& running();

  void begin_grid(const std::function<void()>* thread_body, uint64_t seed);
  /// Throws Error.
  void run(uint3 block_index, dim3 block_size, dim3 grid_size, size_t dynamic_bytes);
  void end_grid();

  // From a fiber of the block.
  BarrierVotes barrier(bool vote);
  WarpValue warp_op(WarpOp op, unsigned mask, WarpValue value, unsigned source, Combine combine);
  void fence();
  SharedMemory& shared() { return *shared_; }
  [[noreturn]] void fail(const std::string& message) const;

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kAtWarpOp, kDone };

  struct Thread {
    ThreadPlace place;
    Fiber fiber;
    State state = State::kDone;
    bool vote = false;
    WarpOp op = WarpOp::kSync;
    unsigned mask = 0;
    unsigned source = 0;
    Combine combine = nullptr;
    WarpValue given;
    WarpValue got;
  };

  static void thread_main();
  void start_threads(uint3 block_index, dim3 block_size, dim3 grid_size);
  void finish_threads();
  void run_to_end();
  /// Resumes the ready threads among order_[begin, end); true when there was one.
  bool run_ready(unsigned begin, unsigned end);
  bool release_warp(unsigned begin, unsigned end);
  bool arrived(unsigned begin, unsigned end, const Thread& first) const;
  void answer(unsigned begin, unsigned end, Thread& thread) const;
  void release_barrier(unsigned num_live);
  [[noreturn]] void report_deadlock(unsigned num_live, unsigned num_waiting) const;

  const std::function<void()>* thread_body_ = nullptr;
  bool in_order_ = true;
  std::mt19937_64 random_;
  Stacks stacks_;
  std::unique_ptr<SharedMemory> shared_;
  std::vector<std::unique_ptr<SharedMemory>> kept_;
  EndedFibers ended_;
  std::vector<Thread> threads_;
  std::vector<unsigned> order_;
  unsigned num_threads_ = 0;
  Fiber scheduler_;
  Thread* current_ = nullptr;
  std::exception_ptr failure_;
  unsigned barrier_generation_ = 0;
  BarrierVotes votes_;
};

}  // namespace gpu
