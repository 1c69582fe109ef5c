/// Messages for the user: every one has a place in his own file, what was found, what was wanted, and a way out.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace tpc {

/// A place in a JSON file: the file as the user named it, and a JSON pointer ("/layers/3/op") into it.
/// `at_key` marks the name of the member rather than its value. An empty `file` means "no place known".
struct SourceLoc {
  std::string file;
  std::string pointer;
  bool at_key = false;
  bool operator==(const SourceLoc&) const = default;
};

enum class Severity { kError, kWarning, kNote };

struct Note {
  SourceLoc loc;
  std::string message;
};

/// Text rules: lower-case start, no final full stop, names quoted as the user wrote them, wanted and found, values
/// last.
struct Diagnostic {
  Severity severity = Severity::kError;
  SourceLoc loc;
  std::string message;
  std::vector<Note> notes;
  /// Byte offset into the file, for syntax errors that have no pointer; -1 otherwise.
  long long byte = -1;
};

/// The input is wrong (exit code 1). Holds at least one error.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::vector<Diagnostic> diagnostics);
  explicit UserError(Diagnostic diagnostic) : UserError(std::vector<Diagnostic>{std::move(diagnostic)}) {}
  UserError(SourceLoc loc, std::string message)
      : UserError(Diagnostic{Severity::kError, std::move(loc), std::move(message), {}}) {}

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Collects independent mistakes, so that one run lists them all. The end of a stage calls throw_if_errors().
class DiagnosticSink {
 public:
  void add(Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }
  void error(SourceLoc loc, std::string message, std::vector<Note> notes = {});
  void warning(SourceLoc loc, std::string message, std::vector<Note> notes = {});

  bool has_errors() const;
  /// True when something was said about this place already (a layer of a repeated block is one place).
  bool has_any_at(const SourceLoc& loc) const;
  /// Throws UserError with everything collected (warnings too) when there is an error; otherwise keeps the warnings.
  void throw_if_errors() const;
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// The candidate nearest to `word` by edit distance, or "" when none is near enough to suggest.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace tpc
