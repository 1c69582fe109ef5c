/// Sample nodes for the op contract: for every op that has a reference kernel a few small nodes, odd shapes among them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/simulated_ranks.h"

namespace tpc::testing {

struct SampleOperand {
  enum class Values : uint8_t { kNormal, kPositive, kIntegers };

  Shape shape;
  Values values = Values::kNormal;
  int64_t low = 0;  ///< of integers
  int64_t high = 0;
  DType dtype = DType::kF32;  ///< of what is no integer

  TensorType type() const { return {values == Values::kIntegers ? DType::kI32 : dtype, shape}; }
};

struct OpSample {
  OpKind op = OpKind::kAdd;
  std::vector<SampleOperand> operands;
  Attributes attributes;
  /// f32 operands whose gradient the op leaves out on purpose.
  std::vector<size_t> constant_operands = {};

  TypedOp typed() const;
  /// Deterministic values for the operands.
  std::vector<GlobalTensor> values() const;
  /// "add(f32[2, 3], f32[3])".
  std::string text() const;
};

/// With one of every op that may compute in bf16, and one with its sums in f32 where it has some.
std::span<const OpSample> op_samples();

/// Step that samples run in: not the first, so that ops that count steps show it.
inline constexpr StepContext kSampleContext{.seed = 7, .step = 3};

}  // namespace tpc::testing
