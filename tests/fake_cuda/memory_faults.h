/// What is said when memory is touched that may not be.
#pragma once

#include <string>

namespace fake_cuda {

struct Allocation;

/// From now on a fault in device memory is told with its allocation and ends the process; others go where they went
/// before.
void report_memory_faults();

/// The work that this thread runs, for messages; nullptr while it runs none.
void set_running_work(const std::string* name);

/// "byte 12 of allocation 3 of device 0 (4,096 bytes, cudaMalloc)", or "pinned memory", "pageable host memory".
std::string describe_address(const void* address);

/// Dies unless [address, address + bytes) lies in one live allocation of device `device`. `what` is the argument's
/// name.
void check_device_range(const char* call, const char* what, const void* address, uint64_t bytes, int device);

}  // namespace fake_cuda
