#include "compiler/ops/type_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace tpc {

void require_dtype(const TensorType& type, DType wanted, std::string_view what) {
  if (type.dtype == wanted) return;
  throw OpTypeError(fmt::format("{} must be {}, found {}", what, to_string(wanted), to_string(type)));
}

void require_f32(const TensorType& type, std::string_view what) { require_dtype(type, DType::kF32, what); }

void require_float(const TensorType& type, std::string_view what) {
  // Who writes a model knows f32 only.
  if (!is_float(type.dtype)) require_f32(type, what);
}

void require_float_like(const TensorType& type, const TensorType& other, std::string_view what) {
  require_float(type, what);
  require_dtype(type, other.dtype, what);
}

DType sum_dtype(const Attributes& attributes, DType of_operands) {
  if (!attributes.has("sums")) return of_operands;
  require_choice(attributes.get_string("sums"), {"f32"}, "dtype of sums");
  return DType::kF32;
}

void require_shape(const TensorType& type, const Shape& wanted, std::string_view what, std::string_view wanted_of) {
  if (type.shape == wanted) return;
  throw OpTypeError(
      fmt::format("{} must have {}, {}, found {}", what, wanted_of, to_string(wanted), to_string(type.shape)));
}

void require_min_rank(const TensorType& type, size_t rank, std::string_view what) {
  if (type.shape.size() >= rank) return;
  throw OpTypeError(fmt::format("{} must have at least {} dimension{}, found {}", what, rank, rank == 1 ? "" : "s",
                                to_string(type.shape)));
}

void require_sizes(const Shape& shape, std::string_view what) {
  if (shape.size() > kMaxRank) {
    throw OpTypeError(fmt::format("{} may have at most {} dimensions, found {}", what, kMaxRank, shape.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 1) continue;
    throw OpTypeError(fmt::format("dimension {} of {} must be at least 1, found {}", i, what, shape[i]));
  }
}

size_t require_dim(int64_t dim, size_t rank, std::string_view what) {
  if (dim < 0 || dim >= static_cast<int64_t>(rank)) {
    std::string wanted = rank == 0 ? "there is none" : fmt::format("wanted 0 to {}", rank - 1);
    throw OpTypeError(fmt::format("{} has no dimension {}: {}", what, dim, wanted));
  }
  return static_cast<size_t>(dim);
}

void require_increasing_dims(std::span<const int64_t> dims, size_t rank, std::string_view name) {
  bool is_sorted = std::is_sorted(dims.begin(), dims.end(), std::less_equal<>());
  bool in_range =
      std::all_of(dims.begin(), dims.end(), [&](int64_t dim) { return dim >= 0 && dim < static_cast<int64_t>(rank); });
  if (is_sorted && in_range) return;
  throw OpTypeError(
      fmt::format("\"{}\" must be increasing dimensions below {}, found [{}]", name, rank, fmt::join(dims, ", ")));
}

void require_choice(const std::string& found, const std::vector<std::string>& choices, std::string_view what) {
  if (std::find(choices.begin(), choices.end(), found) != choices.end()) return;
  std::string nearest = nearest_word(found, choices);
  throw OpTypeError(fmt::format("unknown {} \"{}\": {}", what, found,
                                nearest.empty() ? fmt::format("wanted one of {}", fmt::join(choices, ", "))
                                                : fmt::format("did you mean \"{}\"?", nearest)));
}

}  // namespace tpc
