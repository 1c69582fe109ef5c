/// A collective as one rank executes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/lowering/local_step.h"

namespace tpc {

/// All members of the group issue the same sequence of them.
struct CollectiveStep {
  OpKind op = OpKind::kAllReduce;  ///< kAllReduce, kReduceScatter, kAllGather, kAllToAll
  ReduceOp reduce = ReduceOp::kSum;
  std::vector<int64_t> group;  ///< ranks, in the order of their blocks
  int64_t index = 0;           ///< own position in `group`
  LocalTensor input;
  LocalTensor output;
  std::vector<Region> input_regions;   ///< of every member
  std::vector<Region> output_regions;  ///< of every member
  int64_t step_index = 0;              ///< in the plan, for messages
  std::string name;                    ///< tensor, for messages
};

}  // namespace tpc
