/// Where the time of a training step goes, by units of the plan. Makes text, prints nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace tpc {

/// What is measured: the units of the last steps of a run, each alone on the device.
struct UnitProfile {
  /// One a unit, in the order of the plan; ms is the median of the measured steps.
  std::vector<UnitTime> units;
  /// How many steps were measured.
  size_t num_steps = 0;
};

/// The first step of a run that is measured: the last five are, but for the very first step, which warms up, where
/// there is another.
uint64_t first_profiled_step(uint64_t num_steps);

/// Of the times of the measured steps, at least one, which are all of the same units.
UnitProfile unit_profile(const std::vector<std::vector<UnitTime>>& steps);

/// "contract+add+unary": the ops of a unit in order. One that many steps share ("adamw" of 148 tensors) stands once,
/// "adamw*148".
std::string unit_ops(const UnitTime& unit);

/// {"format": "tpc-profile", "version": 1, "model", "mesh", "device", "rank", "measured_steps", "ms", "units":
/// [{"steps": [first, end], "ops", "layer", "phase", "queue", "ms"}], "totals": [{"op", "calls", "ms", "share"}]}; the
/// totals as in profile_table.
std::string profile_json(const UnitProfile& profile, const Plan& plan, std::string_view device, int64_t rank);

/// `time of every unit, alone on the device: rank 0, median of 5 steps`, as a line.
std::string profile_heading(const UnitProfile& profile);

/// Totals by ops, the most time first: `op calls ms share`, and a line for all. Whatever number of tensors a unit has,
/// it is one call.
std::string profile_table(const UnitProfile& profile);

}  // namespace tpc
