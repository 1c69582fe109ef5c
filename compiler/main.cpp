// tpc: compiles models into plans, and tells what plans cost.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <map>
#include <utility>

#include "compiler/commands.h"
#include "compiler/core/check.h"
#include "compiler/core/diagnostic_renderer.h"
#include "compiler/core/input_file.h"
#include "compiler/core/output_file.h"

namespace tpc {
namespace {

constexpr int kExitInput = 1;
constexpr int kExitUsage = 2;
constexpr int kExitDevice = 69;
constexpr int kExitInternal = 70;

void complain(const std::string& text) { std::fputs(text.c_str(), stderr); }

/// The files that diagnostics speak of, read again only now.
std::string render(const UserError& error) {
  std::map<std::string, std::string> texts;
  auto add = [&](const SourceLoc& loc) {
    if (loc.file.empty() || texts.count(loc.file) != 0) return;
    try {
      texts[loc.file] = read_file(loc.file);
    } catch (const UserError&) {
      // Without its text a message still names the file.
    }
  };
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    add(diagnostic.loc);
    for (const Note& note : diagnostic.notes) add(note.loc);
  }
  return render_diagnostics(error.diagnostics(), texts);
}

// One line on a terminal, rewritten as work goes on, gone when it is done.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const std::string& text) {
    if (isatty(STDERR_FILENO) != 1) return;
    complain("\r\x1b[K" + text);
    is_shown_ = true;
  }
  void clear() {
    if (std::exchange(is_shown_, false)) complain("\r\x1b[K");
  }

 private:
  bool is_shown_ = false;
};

std::string run(const Command& command) {
  ProgressLine line;
  auto progress = [&](const std::string& text) { line.show(text); };
  auto warn = [&](const std::string& text) {
    line.clear();
    complain(text);
  };
  if (const ShardCommand* shard = std::get_if<ShardCommand>(&command)) return run_shard(*shard, warn, progress);
  if (const ReportCommand* report = std::get_if<ReportCommand>(&command)) return run_report(*report);
  if (const CallsCommand* calls = std::get_if<CallsCommand>(&command)) return run_calls(*calls);
  if (const DiffCommand* diff = std::get_if<DiffCommand>(&command)) return run_diff(*diff);
  if (const ExplainCommand* explain = std::get_if<ExplainCommand>(&command)) return run_explain(*explain, progress);
  if (const VerifyCommand* verify = std::get_if<VerifyCommand>(&command)) return run_verify(*verify);
  return std::get<TextCommand>(command).text;
}

int main_with_exit_code(int argc, const char* const* argv) {
  prepare_standard_streams();
  try {
    std::string output = run(parse_command_line(argc, argv));
    write_standard_output(output);
    return 0;
  } catch (const UsageError& error) {
    complain(
        fmt::format("{}: error: {}\n{} --help lists what it takes\n", error.command(), error.what(), error.command()));
    return kExitUsage;
  } catch (const UserError& error) {
    complain(render(error));
    return kExitInput;
  } catch (const DeviceError& error) {
    complain(fmt::format("tpc: error: {}\n", error.what()));
    return kExitDevice;
  } catch (const std::bad_alloc&) {
    complain("tpc: error: out of memory\n");
    return kExitDevice;
  } catch (const std::exception& error) {
    complain(
        fmt::format("tpc: internal error: {}\nThis is a bug of tpc {}, not of your input. Please report it with the "
                    "command line, the model file and this text.\n",
                    error.what(), TPC_VERSION));
    return kExitInternal;
  }
}

}  // namespace
}  // namespace tpc

int main(int argc, char** argv) { return tpc::main_with_exit_code(argc, argv); }
