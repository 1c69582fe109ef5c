/// Element types of a step: what it computes in, and in what its sums travel.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/core/dtype.h"

namespace tpc {

/// Parameters, their gradients, the optimizer, statistics and losses are f32 whatever this says.
struct Precision {
  /// Activations and their gradients.
  DType compute = DType::kF32;
  /// What a sum over ranks of `compute` numbers is in while its parts travel: with f32 no part is rounded before all
  /// are added.
  DType reduce = DType::kF32;

  bool is_mixed() const { return compute != DType::kF32; }
  bool operator==(const Precision&) const = default;
};

/// "f32", "bf16", "bf16/bf16" (compute and reduce, where that is not f32).
std::string to_string(const Precision& precision);
/// Reads to_string's form; nullopt when malformed.
std::optional<Precision> parse_precision(std::string_view text);
/// "compute bf16; masters, sums and optimizer f32; sums across ranks f32".
std::string precision_text(const Precision& precision);

}  // namespace tpc
