/// The commands of tpc. Each returns what goes to standard output; warnings go to `warn` as they stand on a terminal,
/// words on where long work is to `progress`.
#pragma once

#include <functional>
#include <string>

#include "compiler/command_line.h"

namespace tpc {

using Tell = std::function<void(const std::string& text)>;

/// Throws UserError, DeviceError (a file cannot be written), InternalError.
std::string run_shard(const ShardCommand& command, const Tell& warn, const Tell& progress);
std::string run_report(const ReportCommand& command);
/// UsageError where the plan has no such rank or step.
std::string run_calls(const CallsCommand& command);
std::string run_diff(const DiffCommand& command);
std::string run_explain(const ExplainCommand& command, const Tell& progress);
/// UserError with the step where the plan departs from its model.
std::string run_verify(const VerifyCommand& command);

}  // namespace tpc
