/// The commands of tpc. Each returns what goes to standard output; warnings go to `warn` as they stand on a terminal.
#pragma once

#include <functional>
#include <string>

#include "compiler/command_line.h"

namespace tpc {

using Warn = std::function<void(const std::string& text)>;

/// Throws UserError, DeviceError (a file cannot be written), InternalError.
std::string run_shard(const ShardCommand& command, const Warn& warn);
std::string run_report(const ReportCommand& command);
std::string run_explain(const ExplainCommand& command);

}  // namespace tpc
