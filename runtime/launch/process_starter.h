/// `tprun --ranks N`: one process a rank, on this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/launch/rank_endings.h"

namespace tpc {

struct StarterOptions {
  int64_t ranks = 1;
  /// Of every rank, the program's name first.
  std::vector<std::string> arguments;
  std::string program = "/proc/self/exe";
  /// How long the others may take to end when one has failed, or the user has sent a signal.
  std::chrono::milliseconds grace{5000};
  /// Gets the lines that ranks write to standard error, each once, with the rank in front (see LineRelay).
  std::function<void(std::string_view)> tell;
};

/// Starts the ranks and waits for all of them. Rank 0 has this process's standard input and output, the others have
/// none. Every rank finds in TPC_* variables who it is and where to meet: 127.0.0.1, at a port that is listened at
/// already, so that no other run can take it. SIGINT and SIGTERM are passed on; the second one kills. No rank outlives
/// this call, or this process, however that ends. Call it from a thread that lives as long.
///
/// DeviceError when a process cannot be started.
StarterOutcome run_processes(const StarterOptions& options);

}  // namespace tpc
