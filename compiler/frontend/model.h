/// Model files: JSON layer graph in, Graph of primitive ops out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/core/diagnostic.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/optimizer_settings.h"

namespace tpc {

struct ModelOverrides {
  /// "--dim ffn=1024", "--batch 8", "--seq 128": replaces named sizes.
  std::map<std::string, int64_t> dims;
  /// "--precision bf16": replaces what the model says.
  std::optional<Precision> precision = {};
};

struct Model {
  /// Stage::kTyped already (every layer needs shapes to expand); infer-types confirms it.
  Graph graph;
  OptimizerSettings optimizer;
  /// The model file with the overrides written in; canonical key order, compiles to the same graph.
  std::string json;
};

/// Reads `text` (named `file` in messages). Lists every independent mistake in one UserError; warnings go to `sink`.
Model parse_model(const std::string& text, const std::string& file, const ModelOverrides& overrides,
                  DiagnosticSink& sink);

/// The model that a plan carries as its member "model". `text` is that, `plan_file` the plan: mistakes are told where
/// they stand in it.
Model parse_embedded_model(const std::string& text, const std::string& plan_file, DiagnosticSink& sink);

/// Reads a file; a file that cannot be opened is a UserError that names it.
Model load_model(const std::string& path, const ModelOverrides& overrides, DiagnosticSink& sink);

}  // namespace tpc
