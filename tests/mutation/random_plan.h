/// Plans that nobody would choose: every node split at random, among all that its op allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "passes/pipeline.h"

namespace tpc::testing {

struct RandomPlan {
  std::string model;  ///< as text
  /// The one-rank step of the model.
  Graph step;
  Plan plan;
  Graph graph;  ///< that the plan was made of
};

/// A random model (random_model) on a random mesh of up to three axes and 12 ranks, its nodes and leaves split at
/// random. Compiled without a proof. The same for the same seed.
RandomPlan random_plan(uint64_t seed);

}  // namespace tpc::testing
