/// A thread of execution that runs when it is switched to, on a stack of its own.
#pragma once

#include <cstddef>

namespace gpu {

/// Fibers are switched to by one scheduler, which is the OS thread itself, and back.
class Fiber {
 public:
  /// The OS thread that runs.
  void become_scheduler();

  /// Starts at the next switch; entry() never returns, it leaves by end(). The name is for the thread sanitizer.
  void start(char* stack, size_t stack_bytes, void (*entry)(), const char* name);
  /// After it has ended, or when it will never run again.
  void destroy();

  /// From the scheduler to `fiber`; returns when that comes back.
  static void resume(Fiber& scheduler, Fiber& fiber);
  /// From `fiber` to the scheduler; returns when that resumes it.
  static void suspend(Fiber& fiber, Fiber& scheduler);
  /// First and last thing in entry().
  static void enter(Fiber& scheduler);
  [[noreturn]] static void end(Fiber& fiber, Fiber& scheduler);

 private:
  static void switch_stacks(Fiber& from, Fiber& to, bool from_ends);

  void* context_ = nullptr;  // the saved stack pointer, or the ucontext_t
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
};

}  // namespace gpu
