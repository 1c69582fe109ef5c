/// An explanation, for people and for programs.
#pragma once

#include <string>

#include "passes/explanation.h"

namespace tpc {

/// `options` are those of the plan, in which `explanation` is of a node.
std::string explanation_text(const Plan& plan, const CompileOptions& options, const Explanation& explanation);
/// Format "tpc-explain", version 1.
std::string explanation_json(const Plan& plan, const CompileOptions& options, const Explanation& explanation);

}  // namespace tpc
