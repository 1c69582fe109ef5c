/// "precision" of a model file.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compiler/frontend/json_node.h"
#include "compiler/ir/precision.h"

namespace tpc {

/// "f32", "bf16" (sums across ranks in f32) or {"compute": "bf16", "reduce": "bf16"}. Throws UserError.
Precision read_precision(const JsonNode& node, DiagnosticSink& sink);

/// The form that read_precision reads.
nlohmann::json precision_json(const Precision& precision);

}  // namespace tpc
