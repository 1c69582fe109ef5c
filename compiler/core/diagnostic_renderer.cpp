#include "compiler/core/diagnostic_renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "compiler/core/source_text.h"

namespace tpc {
namespace {

// Characters of a source line that are shown; a model without line breaks still gives a readable message.
constexpr int64_t kWidth = 140;
constexpr int64_t kBeforeCaret = 60;

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

std::optional<SourceText::Span> find_span(const SourceLoc& loc, long long byte, std::string_view text) {
  if (byte >= 0) return SourceText::Span{std::min(static_cast<size_t>(byte), text.size()), 1};
  return SourceText(text).locate(loc.pointer, loc.at_key);
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20U || c == '\x7F'; }

// "file:line:col: error: message\n"; a pointer that the text does not have is shown as it is.
std::string heading(const SourceLoc& loc, const std::optional<SourceText::Position>& position, Severity severity,
                    const std::string& message) {
  std::string place;
  if (!loc.file.empty()) {
    if (position) {
      place = fmt::format("{}:{}:{}: ", loc.file, position->line, position->column);
    } else {
      place = loc.pointer.empty() ? fmt::format("{}: ", loc.file) : fmt::format("{} at {}: ", loc.file, loc.pointer);
    }
  }
  std::string text = fmt::format("{}{}: {}", place, severity_name(severity), message);
  // The user's own words may hold anything; a message is one line.
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text + "\n";
}

// The line's characters, each as its UTF-8 bytes; control characters become a space, so that the caret stays aligned.
std::vector<std::string> characters(std::string_view line) {
  std::vector<std::string> out;
  for (char c : line) {
    if ((static_cast<unsigned char>(c) & 0xC0U) == 0x80U && !out.empty()) {
      out.back() += c;
    } else {
      out.emplace_back(1, is_control(c) ? ' ' : c);
    }
  }
  return out;
}

std::string snippet(const SourceText& source, const SourceText::Span& span) {
  SourceText::Position start = source.position(span.offset);
  SourceText::Position end = source.position(span.offset + span.length);
  std::vector<std::string> line = characters(source.line_at(span.offset));
  auto size = static_cast<int64_t>(line.size());
  int64_t caret = start.column - 1;
  int64_t width = end.line == start.line ? end.column - start.column : size - caret;

  int64_t first = size > kWidth ? std::clamp<int64_t>(caret - kBeforeCaret, 0, size - kWidth) : 0;
  int64_t last = std::min(size, first + kWidth);
  width = std::max<int64_t>(1, std::min(width, last - caret));

  std::string shown = first > 0 ? "..." : "";
  std::string marks(shown.size() + static_cast<size_t>(caret - first), ' ');
  for (int64_t i = first; i < last; ++i) shown += line[static_cast<size_t>(i)];
  if (last < size) shown += "...";
  marks += '^';
  marks.append(static_cast<size_t>(width - 1), '~');

  std::string number = std::to_string(start.line);
  return fmt::format("  {} | {}\n  {} | {}\n", number, shown, std::string(number.size(), ' '), marks);
}

std::string render_one(const SourceLoc& loc, long long byte, Severity severity, const std::string& message,
                       const SourceLookup& source, bool with_line) {
  const std::string* text = loc.file.empty() ? nullptr : source(loc.file);
  auto span = text ? find_span(loc, byte, *text) : std::nullopt;
  if (!span) return heading(loc, std::nullopt, severity, message);
  SourceText lines(*text);
  std::string out = heading(loc, lines.position(span->offset), severity, message);
  if (with_line && !text->empty()) out += snippet(lines, *span);
  return out;
}

}  // namespace

std::string render_diagnostic(const Diagnostic& diagnostic, const SourceLookup& source) {
  std::string out =
      render_one(diagnostic.loc, diagnostic.byte, diagnostic.severity, diagnostic.message, source, /*with_line=*/true);
  for (const Note& note : diagnostic.notes) {
    out += render_one(note.loc, /*byte=*/-1, Severity::kNote, note.message, source, /*with_line=*/false);
  }
  return out;
}

std::string render_diagnostics(const std::vector<Diagnostic>& diagnostics, const SourceLookup& source) {
  std::string out;
  for (const Diagnostic& diagnostic : diagnostics) out += render_diagnostic(diagnostic, source);
  return out;
}

std::string render_diagnostics(const std::vector<Diagnostic>& diagnostics,
                               const std::map<std::string, std::string>& texts) {
  return render_diagnostics(diagnostics, [&](const std::string& file) -> const std::string* {
    auto found = texts.find(file);
    return found == texts.end() ? nullptr : &found->second;
  });
}

}  // namespace tpc
