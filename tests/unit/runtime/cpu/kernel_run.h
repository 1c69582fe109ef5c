/// Runs one rank's step on the cpu backend.
#pragma once

#include <vector>

#include "tests/support/rank_step.h"

namespace tpc::testing {

enum class Buffers {
  kSeparate,
  kInPlace,  ///< results lie over the operands that the op's row says, where the regions are the same
};

/// Results of the cpu kernel, run twice (a kernel keeps nothing from run to run) unless in place. Fails the test when
/// something outside the results is written.
std::vector<std::vector<double>> run_cpu(const RankStep& step, Buffers buffers = Buffers::kSeparate);

}  // namespace tpc::testing
