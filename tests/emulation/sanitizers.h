/// What the sanitizers are told about fibers. This folder is compiled without -fsanitize=thread, or its own bookkeeping
/// would count as the kernels' synchronisation; GPU_EMULATION_TSAN says that the program has that sanitizer.
#pragma once

#include <cstddef>

#if defined(GPU_EMULATION_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gpu {

#if defined(GPU_EMULATION_TSAN)
inline constexpr bool kThreadSanitizer = true;
inline void tsan_acquire(void* address) { __tsan_acquire(address); }
inline void tsan_release(void* address) { __tsan_release(address); }
#else
inline constexpr bool kThreadSanitizer = false;
inline void tsan_acquire(void* /*address*/) {}
inline void tsan_release(void* /*address*/) {}
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
inline void forbid_access(void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void allow_access(void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }
#else
inline constexpr bool kAddressSanitizer = false;
inline void forbid_access(void* /*begin*/, size_t /*bytes*/) {}
inline void allow_access(void* /*begin*/, size_t /*bytes*/) {}
#endif

}  // namespace gpu
