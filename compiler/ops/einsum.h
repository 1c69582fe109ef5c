/// The formula of a contraction: "bsh,fh->bsf".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/core/shape.h"

namespace tpc {

/// Letters a-z, A-Z name the dimensions of two operands and one result. No letter repeats within a term; every letter
/// of an operand is in the other one or in the result; every letter of the result is in an operand.
struct Einsum {
  std::string x;
  std::string w;
  std::string y;
  bool operator==(const Einsum&) const = default;
};

/// Throws OpTypeError when malformed.
Einsum parse_einsum(std::string_view text);
/// "bsh,fh->bsf".
std::string to_string(const Einsum& einsum);

/// The letters by their part in a (batched) matrix product y[batch, m, n] = sum over k of x[batch, m, k] w[batch, k,
/// n]. Batch, m and n are in the result's order, k in the order of x.
struct EinsumGroups {
  std::string batch;  ///< in x, w and y
  std::string m;      ///< in x and y
  std::string n;      ///< in w and y
  std::string k;      ///< in x and w
};
EinsumGroups einsum_groups(const Einsum& einsum);

/// Size of `letter`, from the operands' shapes (global or local); -1 when neither has it.
int64_t letter_size(const Einsum& einsum, const Shape& x, const Shape& w, char letter);
/// Product of the sizes of `letters`; 1 for none.
int64_t letters_size(const Einsum& einsum, const Shape& x, const Shape& w, std::string_view letters);

/// The result's shape. Throws OpTypeError when a term has another number of letters than its operand dimensions, or a
/// letter two sizes ("contracted dimensions differ: 768 and 512").
Shape einsum_shape(const Einsum& einsum, const Shape& x, const Shape& w);

}  // namespace tpc
