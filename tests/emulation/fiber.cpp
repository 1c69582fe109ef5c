#include "tests/emulation/fiber.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/emulation/sanitizers.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace gpu {
namespace {

#if defined(__x86_64__)
// swapcontext() would make two system calls each time.
__attribute__((naked, noinline)) void swap_stack_pointers(void** /*from*/, void* /*to*/) {
  asm volatile(
      "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp,(%rdi)\n movq %rsi,%rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}

void* new_context(char* stack, size_t stack_bytes, void (*entry)(), void* /*old*/) {
  // As after a call: at the entry of a function the stack pointer is 8 above a multiple of 16.
  constexpr size_t kSavedRegisters = 6;
  uint64_t* top = reinterpret_cast<uint64_t*>(stack + stack_bytes) - 1;
  *--top = reinterpret_cast<uint64_t>(entry);
  top -= kSavedRegisters;
  std::memset(top, 0, kSavedRegisters * sizeof(uint64_t));
  return top;
}

void switch_context(void*& from, void* to) { swap_stack_pointers(&from, to); }
#else
void* new_context(char* stack, size_t stack_bytes, void (*entry)(), void* old) {
  auto* context = old != nullptr ? static_cast<ucontext_t*>(old) : new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = stack_bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

void switch_context(void*& from, void* to) {
  if (from == nullptr) from = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from), static_cast<ucontext_t*>(to));
}
#endif

}  // namespace

void Fiber::become_scheduler() {
#if defined(GPU_EMULATION_TSAN)
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

void Fiber::start(char* stack, size_t stack_bytes, void (*entry)(), [[maybe_unused]] const char* name) {
  context_ = new_context(stack, stack_bytes, entry, context_);
  stack_ = stack;
  stack_bytes_ = stack_bytes;
#if defined(GPU_EMULATION_TSAN)
  tsan_fiber_ = __tsan_create_fiber(0);
  __tsan_set_fiber_name(tsan_fiber_, name);
#endif
}

void Fiber::switch_stacks(Fiber& from, Fiber& to, [[maybe_unused]] bool from_ends) {
#if defined(GPU_EMULATION_TSAN)
  // Without an edge: that one fiber runs after another is no synchronisation of theirs.
  __tsan_switch_to_fiber(to.tsan_fiber_, 1);
#endif
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(from_ends ? nullptr : &fake_stack, to.stack_, to.stack_bytes_);
#endif
  switch_context(from.context_, to.context_);
#if defined(__SANITIZE_ADDRESS__)
  // Back from `to`, whose stack this tells: the scheduler's is learned so.
  __sanitizer_finish_switch_fiber(fake_stack, &to.stack_, &to.stack_bytes_);
#endif
}

void Fiber::resume(Fiber& scheduler, Fiber& fiber) { switch_stacks(scheduler, fiber, false); }

void Fiber::suspend(Fiber& fiber, Fiber& scheduler) { switch_stacks(fiber, scheduler, false); }

void Fiber::enter([[maybe_unused]] Fiber& scheduler) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler.stack_, &scheduler.stack_bytes_);
#endif
}

void Fiber::end(Fiber& fiber, Fiber& scheduler) {
  switch_stacks(fiber, scheduler, true);
  std::abort();
}

void Fiber::abandon([[maybe_unused]] Fiber& fiber, [[maybe_unused]] Fiber& scheduler) {
#if defined(GPU_EMULATION_TSAN)
  // The sanitizer's view alone goes there, and comes back with an edge.
  __tsan_switch_to_fiber(fiber.tsan_fiber_, 1);
  __tsan_switch_to_fiber(scheduler.tsan_fiber_, 0);
#endif
}

void EndedFibers::add(Fiber& fiber) {
  // The sanitizer knows some thousands at a time.
  constexpr size_t kMaxFibers = 1024;
  if (fiber.tsan_fiber_ == nullptr) return;
  fibers_.push_back(fiber.tsan_fiber_);
  fiber.tsan_fiber_ = nullptr;
  if (fibers_.size() > kMaxFibers) destroy_first();
}

void EndedFibers::clear() {
  while (!fibers_.empty()) destroy_first();
}

void EndedFibers::destroy_first() {
#if defined(GPU_EMULATION_TSAN)
  __tsan_destroy_fiber(fibers_.front());
#endif
  fibers_.pop_front();
}

}  // namespace gpu
