/// Several ranks of NCCL on one GPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tpc {

/// Variables that let rank `rank` meet ranks on its own GPU. `is_one_host`: all ranks run on this machine.
///
/// NCCL refuses two ranks of one host on one GPU. A host is a hash that NCCL_HOSTID replaces, so every rank says that
/// it is a host of its own; what NCCL then does between hosts is told to go through this machine's sockets, with one
/// algorithm and few thread blocks, since the ranks take turns on the GPU and a collective must not wait for room
/// there. Slow (some 10 ms a collective, whatever its size), but every call is the one that ranks on GPUs of their own
/// make.
std::vector<std::pair<std::string, std::string>> shared_gpu_environment(int64_t rank, bool is_one_host);

/// Sets those that the user has not set. Before the first call of NCCL, which reads them once a process, and before
/// other threads run.
void set_shared_gpu_environment(int64_t rank, bool is_one_host);

}  // namespace tpc
