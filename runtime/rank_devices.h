/// From the command line to what every rank runs on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/command_line.h"
#include "runtime/run_peers.h"
#include "runtime/trainer.h"

namespace tpc {

/// Of `--device cpu`: all ranks are threads of this process. Of `--device cuda`: a GPU a rank, by the module. The peers
/// outlive what is returned. Throws DeviceError when the module, its libraries, a driver or a GPU is missing.
Trainer::MakeDevice rank_devices(const RunOptions& options, const Plan& plan, RunPeers& peers);

/// The place of this process in a run of `plan`: alone unless a launcher, or `tprun --ranks`, has started it as one
/// rank of several. Throws UserError when the launcher started another number of ranks than the plan has.
std::unique_ptr<RunPeers> find_peers(const RunOptions& options, const Plan& plan, const std::string& plan_text,
                                     const std::string& build);

/// Starts a process for each rank of the plan where nothing else has, and it needs them; returns the exit code then.
std::optional<int> start_ranks(const RunOptions& options, const Plan& plan, int argc, char** argv);

/// Whether `tprun --ranks` has started this process, and tells how its ranks end.
bool is_started_by_tprun(const RunOptions& options);

}  // namespace tpc
