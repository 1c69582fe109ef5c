/// Runs one rank's step on the cpu backend and by the op's reference.
#pragma once

#include <vector>

#include "compiler/ops/op_def.h"

namespace tpc::testing {

/// A part of a tensor as doubles; values of operands are floats.
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

/// Results of the reference kernel.
std::vector<std::vector<double>> run_reference(const RankStep& step);

enum class Buffers {
  kSeparate,
  kInPlace,  ///< results lie over the operands that the op's row says, where the regions are the same
};

/// Results of the cpu kernel, run twice (a kernel keeps nothing from run to run) unless in place. Fails the test when
/// something outside the results is written.
std::vector<std::vector<double>> run_cpu(const RankStep& step, Buffers buffers = Buffers::kSeparate);

/// Largest |a - b| over all results, relative to the largest |b| of the result or 1, whichever is more.
double difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b);

}  // namespace tpc::testing
