/// Checks of infer_types. Each throws OpTypeError in the user's terms: what was wanted, what was found.
/// The number of operands is checked against the op's row before infer_types is called.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace tpc {

/// The largest rank of a tensor; a model with more dimensions is a mistake.
inline constexpr size_t kMaxRank = 16;

/// max_operands of an op without a limit.
inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

/// `what` names the tensor in the message: "input", "second input", "targets".
void require_dtype(const TensorType& type, DType wanted, std::string_view what);
void require_f32(const TensorType& type, std::string_view what);
/// f32 or bf16.
void require_float(const TensorType& type, std::string_view what);
/// A float of the element type of `other`.
void require_float_like(const TensorType& type, const TensorType& other, std::string_view what);
/// Element type of results that are sums of the operands': theirs, or what attribute "sums" says.
DType sum_dtype(const Attributes& attributes, DType of_operands);

/// Type `type` has the shape of another one, `wanted_of` in the message: "targets [4, 8] must have the shape of ...".
void require_shape(const TensorType& type, const Shape& wanted, std::string_view what, std::string_view wanted_of);

/// At least `rank` dimensions.
void require_min_rank(const TensorType& type, size_t rank, std::string_view what);

/// A shape that can be: at most kMaxRank dimensions, every size at least 1.
void require_sizes(const Shape& shape, std::string_view what);

/// A dimension of a tensor of `rank` dimensions, as position.
size_t require_dim(int64_t dim, size_t rank, std::string_view what);

/// Dimensions that increase strictly and lie below `rank`, as attribute `name` lists them.
void require_increasing_dims(std::span<const int64_t> dims, size_t rank, std::string_view name);

/// One of `choices`; otherwise names the nearest.
void require_choice(const std::string& found, const std::vector<std::string>& choices, std::string_view what);

}  // namespace tpc
