/// Diagnostics as text for a terminal: place, message, the user's own line with a caret under it, and the notes.
///
///   models/gpt.json:41:18: error: contracted dimensions of "q" differ: 768 and 512
///     41 |       "inputs": ["ln1", "wq_small"]
///        |                         ^~~~~~~~~~
///   models/gpt.json:12:5: note: shape of "wq_small" declared here
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/core/diagnostic.h"

namespace tpc {

/// The text of a file by the name that diagnostics give it; nullptr when it is not known.
using SourceLookup = std::function<const std::string*(const std::string& file)>;

/// One diagnostic and its notes, each line ending in a newline. Without a text there is no line:column, without a file
/// no place at all; the message is always there. Long lines are cut around the caret.
std::string render_diagnostic(const Diagnostic& diagnostic, const SourceLookup& source);

/// All of them, one after the other.
std::string render_diagnostics(const std::vector<Diagnostic>& diagnostics, const SourceLookup& source);
std::string render_diagnostics(const std::vector<Diagnostic>& diagnostics,
                               const std::map<std::string, std::string>& texts);

}  // namespace tpc
