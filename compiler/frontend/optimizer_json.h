/// "optimizer" of the model file.
#pragma once

#include "compiler/frontend/json_node.h"
#include "compiler/ir/optimizer_settings.h"

namespace tpc {

/// Reads the object; mistakes go to `sink`, and what could not be read keeps its default.
OptimizerSettings read_optimizer(const JsonNode& node, DiagnosticSink& sink);

}  // namespace tpc
