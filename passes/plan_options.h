/// How a plan was asked for, as text that the plan carries and that asks for it again.
#pragma once

#include <map>
#include <string>

#include "passes/pass.h"

namespace tpc {

/// In the spelling of the command line; what was left at its default is absent, but for mesh, strategy and
/// sequence_parallel.
std::map<std::string, std::string> plan_options(const CompileOptions& options);

/// The inverse; optimizer, model and printing stay as they are by default. UserError (in `file`) for an option that is
/// malformed; one that is unknown is ignored: it may be of a later version.
CompileOptions read_plan_options(const std::map<std::string, std::string>& options, const std::string& file);

/// "dp=2,tp=4".
std::string mesh_text(const DeviceMesh& mesh);

}  // namespace tpc
