/// What a run tells: lines for people and for programs. Makes text, prints nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/trainer.h"

namespace tpc {

struct StepRecord {
  uint64_t step = 0;
  StepResult result;
  double ms = 0;
  double tokens_per_s = 0;
  /// Its units were measured one by one, so its time is not that of an ordinary step.
  bool is_profiled = false;
};

/// Of the rank whose device is fullest, in bytes.
struct DeviceMemoryReport {
  int64_t rank = 0;
  int64_t arena = 0;
  RankMemory memory;
};

/// One JSON object on one line: {"step":0,"loss":5.80129,"ms":5.1,"tokens_per_s":25098.0} and "grad_norm" when there is
/// one; "profiled": true when it is. Floats are the shortest decimals that read back as the same float.
std::string metrics_line(const StepRecord& record);

/// `step 12/50  loss 5.80129  5.10 ms  25.1k tokens/s`.
std::string step_line(const StepRecord& record, uint64_t num_steps);

/// First and last loss, median time of a step, tokens per second at it: of ordinary steps where there are any.
std::string run_summary(const std::vector<StepRecord>& records);

/// Bytes received by all ranks in all steps, per kind and phase: counted beside predicted.
std::string traffic_table(const Traffic& counted, const Traffic& predicted);

/// One JSON object: {"steps", "first_loss", "last_loss", "median_ms", "tokens_per_s", "received_bytes",
/// "predicted_bytes"} and, on devices with memory of their own, "device_memory": {"rank", "arena", "plan", "held",
/// "used"}.
std::string summary_json(const std::vector<StepRecord>& records, const Traffic& counted, const Traffic& predicted,
                         const std::optional<DeviceMemoryReport>& memory);

/// `device memory: plan 1.26 GiB (arena 1.23 GiB), used 1.27 GiB (1.008)`: the plan's is the arena with the working
/// memory of its kernels; what the device says is used comes beside, and as a multiple of it.
std::string memory_line(const DeviceMemoryReport& memory);

}  // namespace tpc
