/// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tpc {

enum class DType : uint8_t { kF32, kI32, kBF16 };

/// Bytes of one element.
int64_t byte_size(DType dtype);
/// f32 and bf16.
bool is_float(DType dtype);
/// "f32", "i32", "bf16".
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace tpc
