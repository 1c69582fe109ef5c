#include "compiler/core/dtype.h"

#include "compiler/core/check.h"

namespace tpc {

int64_t byte_size(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
  }
  TPC_UNREACHABLE("dtype {}", static_cast<int>(dtype));
}

bool is_float(DType dtype) { return dtype != DType::kI32; }

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kI32:
      return "i32";
    case DType::kBF16:
      return "bf16";
  }
  TPC_UNREACHABLE("dtype {}", static_cast<int>(dtype));
}

std::optional<DType> parse_dtype(std::string_view text) {
  if (text == "f32") return DType::kF32;
  if (text == "i32") return DType::kI32;
  if (text == "bf16") return DType::kBF16;
  return std::nullopt;
}

}  // namespace tpc
