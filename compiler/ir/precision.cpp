#include "compiler/ir/precision.h"

#include <fmt/format.h>

namespace tpc {

std::string to_string(const Precision& precision) {
  std::string text(to_string(precision.compute));
  if (precision.reduce != DType::kF32) text += fmt::format("/{}", to_string(precision.reduce));
  return text;
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (Precision known : {Precision{}, Precision{DType::kBF16, DType::kF32}, Precision{DType::kBF16, DType::kBF16}}) {
    if (text == to_string(known)) return known;
  }
  return std::nullopt;
}

std::string precision_text(const Precision& precision) {
  return fmt::format("compute {}; masters, sums and optimizer f32; sums across ranks {}", to_string(precision.compute),
                     to_string(precision.reduce));
}

}  // namespace tpc
