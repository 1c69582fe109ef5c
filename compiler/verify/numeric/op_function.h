/// What ops compute in the field: for each a rational function with the dependencies of the real one, and linear where
/// that is. Written from the ops' formulas (docs/ops.md), not from the rules that the compiler splits by.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/attributes.h"
#include "compiler/ir/op_kind.h"
#include "compiler/sharding/placement.h"
#include "compiler/verify/numeric/field.h"

namespace tpc::verify {

/// The part `region` of a tensor of `shape`, dense and row-major.
struct FieldTensor {
  std::string_view name;
  Shape shape;
  Region region;
  Element* data = nullptr;
};

/// A rank does not hold what the op needs.
struct OpFault {
  std::string message;
};

struct OpCall {
  const Attributes& attributes;
  std::span<const FieldTensor> operands;
  /// Not initialised.
  std::span<FieldTensor> results;
  /// Stands for the training seed and step.
  uint64_t seed = 0;
  /// Of mask: the first rank of its group keeps the value.
  bool is_first_in_group = true;
};

/// Computes this rank's contribution to the results' regions from the operands' regions; all indices are global. Throws
/// OpFault.
using OpFunction = void (*)(const OpCall& call);

/// nullptr: leaves, outputs, updates and collectives, which compute nothing on one rank.
OpFunction op_function(OpKind op);

// elementwise_functions.cpp
void add_function(const OpCall& call);
void subtract_function(const OpCall& call);
void multiply_function(const OpCall& call);
void divide_function(const OpCall& call);
void cast_function(const OpCall& call);
void scale_function(const OpCall& call);
void unary_function(const OpCall& call);
void unary_grad_function(const OpCall& call);
void square_root_function(const OpCall& call);
void clip_coefficient_function(const OpCall& call);
void dropout_function(const OpCall& call);
void fill_function(const OpCall& call);
void adamw_function(const OpCall& call);
void sgd_function(const OpCall& call);

// sum_functions.cpp
void contract_function(const OpCall& call);
void reduce_sum_function(const OpCall& call);
void broadcast_to_function(const OpCall& call);
void sum_squares_function(const OpCall& call);
void row_max_function(const OpCall& call);

// shape_functions.cpp
void reshape_function(const OpCall& call);
void transpose_function(const OpCall& call);
void slice_function(const OpCall& call);
void pad_function(const OpCall& call);
void concat_function(const OpCall& call);
void local_slice_function(const OpCall& call);
void mask_function(const OpCall& call);
void zero_pad_function(const OpCall& call);

// row_functions.cpp
void softmax_function(const OpCall& call);
void softmax_grad_function(const OpCall& call);
void layer_norm_function(const OpCall& call);
void layer_norm_grad_function(const OpCall& call);
void rms_norm_function(const OpCall& call);
void rms_norm_grad_function(const OpCall& call);

// attention_functions.cpp
void attention_function(const OpCall& call);
void attention_grad_function(const OpCall& call);
void rope_function(const OpCall& call);

// token_functions.cpp
void embedding_function(const OpCall& call);
void embedding_grad_function(const OpCall& call);
void softmax_stats_function(const OpCall& call);
void softmax_stats_grad_function(const OpCall& call);
void token_loss_function(const OpCall& call);
void token_loss_grad_function(const OpCall& call);

/// In place of exp, and in the statistics of softmax: z^2 + 3z + 7. No rational function turns sums into products (the
/// orders p and p - 1 of the two groups have no common factor), so a shift by the row's maximum does not cancel: a plan
/// must shift by the very number that the model shifts by.
inline Element exponential(Element z) { return add(multiply(add(z, 3), z), 7); }

}  // namespace tpc::verify
