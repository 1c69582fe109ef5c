#include "compiler/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "compiler/core/diagnostic.h"
#include "compiler/core/text_parts.h"
#include "compiler/doc_pages.h"
#include "compiler/shard_flags.h"

namespace tpc {
namespace {

constexpr const char* kTopHelp = R"(tpc: compiles a model into a plan for tensor-parallel training

  tpc shard MODEL [--tp N | --mesh dp=2,tp=4] [-o PLAN]   decide how every tensor is split; show or write the plan
  tpc report PLAN [--json | --csv]                        communication, memory and arithmetic of a plan
  tpc calls PLAN [--rank R] [--json]                      the calls of cuBLASLt, NCCL and kernels that a step is on GPUs
  tpc diff PLAN PLAN [--json]                             what two plans have unlike: bytes, memory, splits
  tpc explain PLAN NODE [--json]                          why a layer or tensor is split so, and what else there was
  tpc verify PLAN [--model MODEL] [--numeric]             prove that a plan computes its model, without running it
  tpc shard --help, tpc report --help, ...                flags and examples
  tpc --version

Train with a plan: tprun PLAN
Exit codes: 0 done, 1 the input is wrong, 2 usage, 69 a device, file or peer failed, 70 a bug of tpc
)";

constexpr const char* kReportExamples = R"(
Examples:
  tpc report plan.json                   tables; layers that repeat are told once
  tpc report plan.json --all-collectives every collective on a line of its own
  tpc report plan.json --csv > plan.csv  one line a collective
  tpc report plan.json --json            everything, for programs
)";

constexpr const char* kCallsExamples = R"(
Examples:
  tpc calls plan.json --rank 1           a training step of rank 1 on a GPU, call by call; layers that repeat are told once
  tpc calls plan.json --all              every layer
  tpc calls plan.json --layer block0.fc1 of one layer, or of a block of layers
  tpc calls plan.json --json             everything, for programs
)";

constexpr const char* kDiffExamples = R"(
Examples:
  tpc diff tp2.json tp4.json             two plans side by side: only what differs; layers that repeat are told once
  tpc diff tp2.json tp4.json --json      everything, for programs
)";

constexpr const char* kExplainExamples = R"(
Examples:
  tpc explain plan.json block0.proj      what was chosen, what else was possible and its cost; each collective, why it
                                         is there and in which other plans it is not
  tpc explain plan.json grad.block0.fc1.weight
                                         a gradient: why it is added over ranks, and where
  tpc explain plan.json "block0.proj@[R]"
                                         what a collective makes, as tpc shard --rank 0 names it
  tpc explain plan.json 42 --json        a step by its number, for programs
)";

constexpr const char* kVerifyExamples = R"(
Examples:
  tpc verify plan.json                   against the model that the plan carries
  tpc verify plan.json --model gpt.json  against another file
  tpc verify plan.json --numeric         a second proof, by other means
)";

int64_t index_of(const std::string& command, const std::string& flag, const std::string& text) {
  std::optional<int64_t> value = parse_number<int64_t>(text);
  if (value && *value >= 0) return *value;
  throw UsageError(command, fmt::format("{} wants a whole number, at least 0; found \"{}\"", flag, text));
}

/// Flags whose values are numbers are read as texts, for messages in the house's form.
class CallsFlags {
 public:
  void add_to(CLI::App& app) {
    app.add_option("PLAN", command_.plan_path, "plan file, made by tpc shard -o")->required();
    app.add_option("--rank", rank_, "whose calls (default: 0)")->type_name("R");
    app.add_option("--step", step_, "only those for a step of the plan")->type_name("N");
    app.add_option("--layer", command_.layer, "only those for a layer, or for a block of layers")->type_name("NAME");
    app.add_flag("--all", command_.all, "do not collapse layers that repeat");
    app.add_flag("--json", command_.json, "everything, for programs");
  }
  CallsCommand command() const {
    CallsCommand command = command_;
    if (!rank_.empty()) command.rank = index_of("tpc calls", "--rank", rank_);
    if (!step_.empty()) command.step = index_of("tpc calls", "--step", step_);
    return command;
  }

 private:
  CallsCommand command_;
  std::string rank_;
  std::string step_;
};

std::string summary_of(const std::string& command) {
  if (command == "shard")
    return "Decides how every tensor of a model is split over the ranks; shows or writes the plan.";
  if (command == "calls")
    return "Lists the calls of cuBLASLt, NCCL and the CUDA runtime, and the kernels, of one rank's training step on a "
           "GPU. Needs no GPU.";
  if (command == "diff")
    return "Compares two plans: options, bytes received, memory, collectives, how tensors lie. Tells what differs.";
  if (command == "explain")
    return "Tells why a layer or tensor is split as it is, why each collective is there, and what other ways would "
           "cost.";
  if (command == "verify")
    return "Proves that on every rank a plan computes its model; names the first step that does not.";
  return "Tells what a plan costs: communication, memory, arithmetic.";
}

/// All flags of a command, for the nearest one.
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& command,
                               const std::vector<std::string>& extras) {
  auto is_flag = [](const std::string& text) { return text.size() > 1 && text[0] == '-'; };
  auto flag = std::find_if(extras.begin(), extras.end(), is_flag);
  if (flag == extras.end()) throw UsageError(command, fmt::format("one argument too many: \"{}\"", extras[0]));
  std::string name = flag->substr(0, flag->find('='));
  std::string nearest = nearest_word(name, flags_of(app));
  throw UsageError(command, nearest.empty() ? fmt::format("unknown flag \"{}\"", name)
                                            : fmt::format("unknown flag \"{}\"; did you mean \"{}\"?", name, nearest));
}

/// An empty value is a shell variable that is not set, mostly.
void refuse_empty(const CLI::App& app, const std::string& command) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw UsageError(command, fmt::format("{} is given an empty value", option->get_name()));
    }
  }
}

/// CLI11's words for an error, in the house's form.
std::string message_of(const CLI::ParseError& error) {
  std::string text = error.what();
  std::string name = text.substr(0, text.find(':'));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    bool is_repeated = text.find("received") != std::string::npos;
    return name + (is_repeated ? " is given more than once" : " wants a value");
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return text;  // "MODEL is required"
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return fmt::format("a flag without a value was given one: {}", text.substr(text.find(':') + 2));
  }
  return text;
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  if (argc < 2) return TextCommand{kTopHelp};
  const std::string first = argv[1];
  if (first == "--help" || first == "-h" || first == "help") return TextCommand{kTopHelp};
  if (first == "--version") return TextCommand{fmt::format("tpc {}\n", TPC_VERSION)};
  // Pages of docs/, printed from the tables so that they cannot drift; not for users.
  if (first == "ops" && argc == 2) return TextCommand{ops_page()};
  if (first == "passes" && argc == 2) return TextCommand{passes_page()};

  const std::vector<std::string> commands{"shard", "report", "calls", "diff", "explain", "verify"};
  if (std::find(commands.begin(), commands.end(), first) == commands.end()) {
    std::string nearest = nearest_word(first, commands);
    std::string hint = nearest.empty() ? "known are shard, report, calls, diff, explain, verify"
                                       : fmt::format("did you mean \"{}\"?", nearest);
    throw UsageError("tpc", fmt::format("unknown {} \"{}\"; {}", first[0] == '-' ? "flag" : "command", first, hint));
  }
  const std::string command = "tpc " + first;
  CLI::App app(summary_of(first), command);
  app.allow_extras();
  ShardFlags shard;
  ReportCommand report;
  CallsFlags calls;
  DiffCommand diff;
  ExplainCommand explain;
  VerifyCommand verify;
  bool json = false;
  bool csv = false;
  if (first == "shard") {
    shard.add_to(app);
  } else if (first == "calls") {
    calls.add_to(app);
    app.footer(kCallsExamples);
  } else if (first == "diff") {
    app.add_option("A", diff.before_path, "plan file, made by tpc shard -o")->type_name("PLAN")->required();
    app.add_option("B", diff.after_path, "the plan to compare it with")->type_name("PLAN")->required();
    app.add_flag("--json", diff.json, "everything, for programs");
    app.footer(kDiffExamples);
  } else if (first == "explain") {
    app.add_option("PLAN", explain.plan_path, "plan file, made by tpc shard -o")->required();
    app.add_option("NODE", explain.node,
                   "a layer, a tensor or the number of a step: block0.proj, grad.block0.fc1.weight")
        ->required();
    app.add_flag("--json", explain.json, "everything, for programs");
    app.footer(kExplainExamples);
  } else if (first == "verify") {
    app.add_option("PLAN", verify.plan_path, "plan file, made by tpc shard -o")->required();
    app.add_option("--model", verify.model_path, "the model to prove it against (default: the one in the plan)")
        ->type_name("MODEL");
    app.add_flag("--numeric", verify.is_numeric,
                 "execute the plan at tiny shapes in exact numbers instead, and compare with the model on one rank");
    app.footer(kVerifyExamples);
  } else {
    app.add_option("PLAN", report.plan_path, "plan file, made by tpc shard -o")->required();
    app.add_flag("--json", json, "everything, for programs");
    app.add_flag("--csv", csv, "one line a collective");
    app.add_flag("--all-collectives", report.all_collectives, "do not collapse layers that repeat");
    app.footer(kReportExamples);
  }
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::CallForHelp&) {
    return TextCommand{app.help()};
  } catch (const CLI::ParseError& error) {
    // A mistyped flag is the likelier cause of a missing argument.
    std::vector<std::string> extras = app.remaining();
    if (!extras.empty()) refuse_extra(app, command, extras);
    throw UsageError(command, message_of(error));
  }
  std::vector<std::string> extras = app.remaining();
  if (!extras.empty()) refuse_extra(app, command, extras);
  refuse_empty(app, command);
  if (first == "shard") return shard.command();
  if (first == "calls") return calls.command();
  if (first == "diff") return diff;
  if (first == "explain") return explain;
  if (first == "verify") return verify;
  if (json && csv) throw UsageError(command, "--json and --csv are two forms of one report; use one of them");
  if (json) report.form = ReportCommand::Form::kJson;
  if (csv) report.form = ReportCommand::Form::kCsv;
  return report;
}

}  // namespace tpc
