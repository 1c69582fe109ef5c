/// Sample steps for the cpu kernels: sizes around whole vectors, tiles and blocks, where the op contract's samples are
/// tiny.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/op_def.h"
#include "tests/support/global_tensor.h"

namespace tpc::testing {

struct KernelCase {
  OpKind op = OpKind::kAdd;
  std::vector<GlobalTensor> operands;
  Attributes attributes;

  std::vector<TensorType> operand_types() const;
  /// "add(f32[2, 3], f32[3])" and the attributes.
  std::string text() const;
};

/// At least one for every op that computes something on one rank; those that may compute in bf16 do so, too.
std::vector<KernelCase> kernel_cases();

}  // namespace tpc::testing
