/// What strategy search proved of the placements that it chose.
#pragma once

#include <cstdint>
#include <string>

namespace tpc {

struct SearchProof {
  /// What was minimised: "bytes" (received, summed over collectives, of the fullest rank each) or "time" (picoseconds).
  std::string objective;
  int64_t price = 0;
  /// No legal plan within the limits costs less than this; equal to `price` when the plan is proved optimal.
  int64_t bound = 0;
  /// Bytes of a rank by the search's account: leaves at rest, gradients, what is kept for backward.
  int64_t memory = 0;
  /// The limit on that account; 0: none.
  int64_t memory_limit = 0;
  /// Decisions that were made together, and the choices that they had in all.
  int64_t decisions = 0;
  int64_t choices = 0;

  bool is_optimal() const { return price == bound; }
  bool operator==(const SearchProof&) const = default;
};

}  // namespace tpc
