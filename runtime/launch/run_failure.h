/// Why a run of several processes has ended.
#pragma once

#include <cstdint>
#include <string>

namespace tpc {

/// The first failure of a run, the same on every rank.
struct RunFailure {
  enum class Kind : uint8_t {
    kFailed,   ///< the rank said so itself
    kDied,     ///< the rank's connection broke
    kNoticed,  ///< others noticed: the rank is silent, does not come to where all wait, or does not fit the others
  };
  Kind kind = Kind::kFailed;
  /// Whose failure it is.
  int64_t rank = 0;
  /// The one rank that tells the user of it: the one that failed; else rank 0, or rank 1 when it is rank 0 that is
  /// gone.
  int64_t teller = 0;
  /// Names the rank: "rank 2 has died".
  std::string message;
  bool operator==(const RunFailure&) const = default;
};

}  // namespace tpc
