/// A thread of execution that runs when it is switched to, on a stack of its own.
#pragma once

#include <cstddef>
#include <deque>

namespace gpu {

/// Fibers are switched to by one scheduler, which is the OS thread itself, and back.
class Fiber {
 public:
  /// The OS thread that runs.
  void become_scheduler();

  /// Starts at the next switch; entry() never returns, it leaves by end(). The name is for the thread sanitizer.
  void start(char* stack, size_t stack_bytes, void (*entry)(), const char* name);

  /// From the scheduler to `fiber`; returns when that comes back.
  static void resume(Fiber& scheduler, Fiber& fiber);
  /// From `fiber` to the scheduler; returns when that resumes it.
  static void suspend(Fiber& fiber, Fiber& scheduler);
  /// First and last thing in entry().
  static void enter(Fiber& scheduler);
  [[noreturn]] static void end(Fiber& fiber, Fiber& scheduler);
  /// Of one that will never run again: what it did happens before what the scheduler does from now on.
  static void abandon(Fiber& fiber, Fiber& scheduler);

 private:
  friend class EndedFibers;

  static void switch_stacks(Fiber& from, Fiber& to, bool from_ends);

  void* context_ = nullptr;  // the saved stack pointer, or the ucontext_t
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
};

/// Fibers that have ended, or will never run again, as the thread sanitizer knows them. It gives the number of a fiber
/// that is destroyed to a new one, and what two with one number do is no race: so they are kept for a while.
class EndedFibers {
 public:
  EndedFibers() = default;
  ~EndedFibers() { clear(); }
  EndedFibers(const EndedFibers&) = delete;
  EndedFibers& operator=(const EndedFibers&) = delete;

  void add(Fiber& fiber);
  void clear();

 private:
  void destroy_first();

  std::deque<void*> fibers_;
};

}  // namespace gpu
