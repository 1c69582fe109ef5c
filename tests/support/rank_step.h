/// One rank's share of a sample step, for judging a backend's kernel by the op's reference.
#pragma once

#include <functional>
#include <vector>

#include "compiler/ops/op_def.h"
#include "tests/support/kernel_cases.h"

namespace tpc::testing {

/// A part of a tensor as doubles; values of operands are ones of the type.
struct Part {
  TensorType type;
  Region region;
  std::vector<double> data;
};

struct RankStep {
  OpKind op = OpKind::kAdd;
  Attributes attributes;
  std::vector<Part> operands;
  /// Types and regions; the data is ignored.
  std::vector<Part> results;
  bool is_first_in_group = true;
  StepContext context{.seed = 7, .step = 3};
};

/// The case on one rank.
RankStep unsharded_step(const KernelCase& sample);

/// Calls visit(step) for one rank alone and for every rank of every split on two and three that the op's rule allows.
void for_each_share(const KernelCase& sample, const std::function<void(const RankStep&)>& visit);

/// Results of the reference kernel.
std::vector<std::vector<double>> run_reference(const RankStep& step);

/// Largest |a - b| over all results, relative to the largest |b| of the result or 1, whichever is more; infinity when
/// a value is not a number.
double difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b);

}  // namespace tpc::testing
