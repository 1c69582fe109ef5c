/// What an op is: one row of plain data, defined in one file of this folder. Nothing is virtual, nothing registers
/// itself at start-up, and nothing here knows a device.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace tpc {

/// A mistake in a node's types or attributes, in the user's terms ("contracted dimensions differ: 768 and 512").
/// Who calls the op adds the place and turns it into a UserError.
class OpTypeError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A node as its op's functions see it. `results` is empty in infer_types.
struct OpQuery {
  const Attributes& attributes;
  std::span<const TensorType> operands;
  std::span<const TensorType> results;
};

/// Work of a node on the shapes it is given (local ones, for a rank's share).
struct OpCost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
};

/// A tensor in the reference executor: the part `region` of a tensor of type `type`, dense and row-major. Everything is
/// held as double (exact for every int32), so that the reference is far more accurate than what it judges.
struct ReferenceTensor {
  TensorType type;
  Region region;
  double* data = nullptr;
};

/// What varies from step to step. Training step `step` counts from 0.
struct StepContext {
  uint64_t seed = 0;
  uint64_t step = 0;
};

/// The reference kernel computes, from the operands' regions, this rank's contribution to the results' regions: the
/// same function serves one rank and any shard, since every index is global. Results are not initialised.
struct ReferenceArgs {
  const Attributes& attributes;
  std::span<const ReferenceTensor> operands;
  std::span<ReferenceTensor> results;
  StepContext context;
  /// True on the first rank of the axes in attribute "axes" (mask keeps the value there only); true without that
  /// attribute.
  bool is_first_in_group = true;
};

class GradBuilder;

/// Element type of a float operand or result where a step computes in bf16.
enum class FloatRole : uint8_t {
  kAlike,  ///< one type for all operands and results with this role: f32 among statistics, else the compute type
  kData,   ///< the compute type
  kFull,   ///< f32: statistics, losses, gradients of parameters, all of the optimizer
  kAny,    ///< of an operand: leaves and statistics as they are (a norm's gain in f32), else the compute type
  kSum,    ///< of a result: a sum that ranks may have parts of. As the operands, or f32 with attribute `sums` = "f32"
};

/// Of the op's row: one an operand (result); the last one goes for all further ones, and kAlike where there is none.
struct FloatRoles {
  std::vector<FloatRole> operands = {};
  std::vector<FloatRole> results = {};

  FloatRole of_operand(size_t i) const { return at(operands, i); }
  FloatRole of_result(size_t i) const { return at(results, i); }

 private:
  static FloatRole at(const std::vector<FloatRole>& roles, size_t i) {
    return roles.empty() ? FloatRole::kAlike : roles[i < roles.size() ? i : roles.size() - 1];
  }
};

struct OpDef {
  OpKind kind = OpKind::kAdd;
  /// snake_case; the spelling in printed graphs and plans.
  std::string_view name;
  /// One line with the formula, for docs/ops.md.
  std::string_view summary;
  int min_operands = 0;
  int max_operands = 0;
  int num_results = 1;
  /// Result types, or OpTypeError.
  std::vector<TensorType> (*infer_types)(const OpQuery&) = nullptr;
  /// Emits gradient nodes; nullptr = no gradient passes (a constant, or a shift that cancels).
  void (*gradient)(GradBuilder&) = nullptr;
  /// Placements that the op allows; nullptr only for leaves, sinks, moves and collectives.
  ShardingRule (*sharding_rule)(const OpQuery&) = nullptr;
  /// On local shapes.
  OpCost (*cost)(const OpQuery&) = nullptr;
  /// The executable meaning, clear before fast; nullptr for leaves, sinks and collectives.
  void (*reference)(const ReferenceArgs&) = nullptr;
  /// Matmul-like: under tensor parallelism its work is shared.
  bool heavy = false;
  /// Result i may be written over operand inplace[i] when that dies here (-1: no).
  std::vector<int> inplace = {};
  FloatRoles floats = {};
  /// Adds sums up: what all operands have unrounded is added unrounded.
  bool accumulates = false;
};

const OpDef& op_def(OpKind kind);
/// nullptr when no op has that name.
const OpDef* find_op(std::string_view name);
/// Every op, in the order of op_list.def.
std::span<const OpDef* const> all_ops();

#define OP(enumerator, row) extern const OpDef row;
#include "compiler/ir/op_list.def"
#undef OP

/// Emits the gradient of one forward node as ordinary nodes (passes/build_backward implements it).
class GradBuilder {
 public:
  virtual ~GradBuilder() = default;

  virtual const Node& node() const = 0;
  const Attributes& attributes() const { return node().attributes; }
  ValueId operand(size_t i) const { return node().operands[i]; }
  ValueId result(size_t i) const { return node().results[i]; }
  size_t num_operands() const { return node().operands.size(); }
  virtual const TensorType& type(ValueId value) const = 0;

  /// Gradient of the loss with respect to result i; invalid when nothing that needs a gradient uses it (it is zero).
  virtual ValueId grad_of_result(size_t i) const = 0;
  /// True when a trainable parameter lies behind operand i.
  virtual bool needs_grad(size_t i) const = 0;
  /// Appends a backward node (types inferred) and returns its results.
  virtual std::vector<ValueId> emit(OpKind op, std::vector<ValueId> operands, Attributes attributes = {}) = 0;
  ValueId emit_one(OpKind op, std::vector<ValueId> operands, Attributes attributes = {}) {
    return emit(op, std::move(operands), std::move(attributes))[0];
  }
  /// Declares the gradient of operand i (contributions of several uses are added by the pass).
  virtual void set_grad(size_t i, ValueId grad) = 0;
};

}  // namespace tpc
