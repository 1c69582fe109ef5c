#include "compiler/core/diagnostic.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

std::string join_messages(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += "; ";
    text += diagnostic.message;
  }
  return text;
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

UserError::UserError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_messages(diagnostics)), diagnostics_(std::move(diagnostics)) {
  TPC_CHECK(!diagnostics_.empty(), "a UserError needs at least one diagnostic");
}

void DiagnosticSink::error(SourceLoc loc, std::string message, std::vector<Note> notes) {
  add({Severity::kError, std::move(loc), std::move(message), std::move(notes)});
}

void DiagnosticSink::warning(SourceLoc loc, std::string message, std::vector<Note> notes) {
  add({Severity::kWarning, std::move(loc), std::move(message), std::move(notes)});
}

bool DiagnosticSink::has_errors() const {
  return std::any_of(diagnostics_.begin(), diagnostics_.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

bool DiagnosticSink::has_any_at(const SourceLoc& loc) const {
  return std::any_of(diagnostics_.begin(), diagnostics_.end(), [&](const Diagnostic& d) { return d.loc == loc; });
}

void DiagnosticSink::throw_if_errors() const {
  if (has_errors()) throw UserError(diagnostics_);
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tpc
