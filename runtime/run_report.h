/// What a run tells: lines for people and for programs. Makes text, prints nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trainer.h"

namespace tpc {

struct StepRecord {
  uint64_t step = 0;
  StepResult result;
  double ms = 0;
  double tokens_per_s = 0;
};

/// One JSON object on one line: {"step":0,"loss":5.80129,"ms":5.1,"tokens_per_s":25098.0} and "grad_norm" when there is
/// one. Floats are the shortest decimals that read back as the same float.
std::string metrics_line(const StepRecord& record);

/// `step 12/50  loss 5.80129  5.10 ms  25.1k tokens/s`.
std::string step_line(const StepRecord& record, uint64_t num_steps);

/// First and last loss, median time of a step, tokens per second at it.
std::string run_summary(const std::vector<StepRecord>& records);

/// Bytes received by all ranks in all steps, per kind and phase: counted beside predicted.
std::string traffic_table(const Traffic& counted, const Traffic& predicted);

}  // namespace tpc
