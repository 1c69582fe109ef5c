/// What the exit code of a run of several processes is, and what is told of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpc {

/// Exit code of a program whose device or peer has failed.
constexpr int kDeviceError = 69;
/// Exit code of a rank of `tprun --ranks` that ends only because another one has failed, and that prints nothing. Seen
/// by the starter alone, which makes it 69.
constexpr int kHeardOfFailure = 71;

/// How one rank's process ended.
struct RankEnding {
  int64_t rank = 0;
  int exit_code = 0;
  int signal = 0;           ///< that killed it; 0: none
  bool was_killed = false;  ///< by the starter, after the others had ended
  bool has_spoken = false;  ///< on its standard error
};

struct StarterOutcome {
  int exit_code = 0;
  /// For the user; "" when the rank that failed has told, or nothing has failed.
  std::string message;
};

/// `endings` in the order in which they happened; `interrupted`: the signal that the user sent, or 0. 0 when all ranks
/// ended with 0. Else the first that failed by itself decides: with its own code, or with 69 when a signal killed it.
StarterOutcome outcome_of(const std::vector<RankEnding>& endings, int interrupted);

}  // namespace tpc
