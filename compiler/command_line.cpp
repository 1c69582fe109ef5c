#include "compiler/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "compiler/core/diagnostic.h"
#include "compiler/doc_pages.h"
#include "passes/registry.h"

namespace tpc {
namespace {

constexpr const char* kTopHelp = R"(tpc: compiles a model into a plan for tensor-parallel training

  tpc shard MODEL [--tp N | --mesh dp=2,tp=4] [-o PLAN]   decide how every tensor is split; show or write the plan
  tpc report PLAN [--json | --csv]                        communication, memory and arithmetic of a plan
  tpc shard --help, tpc report --help                     flags and examples
  tpc --version

Train with a plan: tprun PLAN
Exit codes: 0 done, 1 the input is wrong, 2 usage, 69 a device, file or peer failed, 70 a bug of tpc
)";

constexpr const char* kShardExamples = R"(
Examples:
  tpc shard models/small_gpt.json --tp 2                      how the layers are split, and what that costs
  tpc shard models/small_gpt.json --tp 2 -o plan.json         write the plan; run it with: tprun plan.json
  tpc shard models/tiny_gpt.json --mesh dp=2,tp=4 --batch 16  two mesh axes, outermost first; another batch
  tpc shard models/tiny_gpt.json --tp 4 --rank 3              what one rank does
  tpc shard models/tiny_gpt.json --tp 2 --stop-after assign-shardings
)";

constexpr const char* kReportExamples = R"(
Examples:
  tpc report plan.json                   tables; layers that repeat are told once
  tpc report plan.json --all-collectives every collective on a line of its own
  tpc report plan.json --csv > plan.csv  one line a collective
  tpc report plan.json --json            everything, for programs
)";

const std::vector<std::string> kAxes{"dp", "tp"};

struct RawShard {
  ShardCommand command;
  std::string mesh;
  std::string tp;
  std::string batch;
  std::string seq;
  std::string rank;
  std::vector<std::string> dims;
  bool json = false;
};

int64_t whole_number(const std::string& command, const std::string& flag, const std::string& text, int64_t least) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_number = !text.empty() && error == std::errc() && end == text.data() + text.size();
  if (!is_number || value < least) {
    throw UsageError(command, fmt::format("{} wants a whole number, at least {}; found \"{}\"", flag, least, text));
  }
  return value;
}

std::string one_of(const std::string& command, const std::string& flag, const std::string& found,
                   const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), found) != known.end()) return found;
  std::string nearest = nearest_word(found, known);
  std::string hint = nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
  throw UsageError(command, fmt::format("{} does not know \"{}\"{} Known: {}", flag, found, hint.empty() ? "." : hint,
                                        fmt::join(known, ", ")));
}

DeviceMesh mesh_of(const RawShard& raw) {
  const std::string command = "tpc shard";
  if (!raw.mesh.empty() && !raw.tp.empty()) {
    throw UsageError(command,
                     fmt::format("--tp {} and --mesh {} both give the mesh; use one of them", raw.tp, raw.mesh));
  }
  constexpr int64_t kMaxWorld = int64_t{1} << 24;
  if (raw.mesh.empty()) {
    int64_t size = raw.tp.empty() ? 1 : whole_number(command, "--tp", raw.tp, 1);
    if (size > kMaxWorld) throw UsageError(command, fmt::format("--tp {} has more than {} ranks", size, kMaxWorld));
    return DeviceMesh({{"tp", size}});
  }
  std::optional<DeviceMesh> mesh = parse_mesh(raw.mesh);
  if (!mesh || mesh->num_axes() == 0) {
    throw UsageError(command, fmt::format("--mesh \"{}\" is malformed; wanted axes with sizes of at least 1, outermost "
                                          "first, like dp=2,tp=4",
                                          raw.mesh));
  }
  int64_t world = 1;
  for (const MeshAxis& axis : mesh->axes()) {
    one_of(command, "--mesh", axis.name, kAxes);
    if (axis.size > kMaxWorld / world) {
      throw UsageError(command, fmt::format("--mesh {} has more than {} ranks", raw.mesh, kMaxWorld));
    }
    world *= axis.size;
  }
  return *mesh;
}

std::map<std::string, int64_t> dims_of(const RawShard& raw) {
  const std::string command = "tpc shard";
  std::map<std::string, int64_t> dims;
  auto add = [&](const std::string& name, const std::string& flag, const std::string& value) {
    int64_t size = whole_number(command, flag, value, 1);
    if (!dims.emplace(name, size).second) {
      throw UsageError(command, fmt::format("the size \"{}\" is given twice", name));
    }
  };
  if (!raw.batch.empty()) add("batch", "--batch", raw.batch);
  if (!raw.seq.empty()) add("seq", "--seq", raw.seq);
  for (const std::string& item : raw.dims) {
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(command, fmt::format("--dim wants name=size, like ffn=1024; found \"{}\"", item));
    }
    add(item.substr(0, equals), "--dim " + item.substr(0, equals), item.substr(equals + 1));
  }
  return dims;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes()) names.emplace_back(pass.name);
  names.emplace_back(kPlanMemoryName);
  return names;
}

ShardCommand finish(RawShard raw) {
  const std::string name = "tpc shard";
  ShardCommand command = raw.command;
  command.mesh = mesh_of(raw);
  command.dims = dims_of(raw);
  one_of(name, "--strategy", command.strategy, strategy_names());
  std::vector<std::string> passes = pass_names();
  if (!command.stop_after.empty()) one_of(name, "--stop-after", command.stop_after, passes);
  passes.emplace_back("all");
  for (const std::string& pass : command.print_after) one_of(name, "--print-after", pass, passes);
  if (!raw.rank.empty()) {
    command.rank = whole_number(name, "--rank", raw.rank, 0);
    int64_t world = command.mesh.world_size();
    if (*command.rank >= world) {
      std::string range = world == 1 ? "the only rank is 0" : fmt::format("ranks are 0 to {}", world - 1);
      throw UsageError(name, fmt::format("--rank {}: {} of {}", *command.rank, range, to_string(command.mesh)));
    }
  }
  if (raw.json) {
    if (!command.output_path.empty())
      throw UsageError(name, "--json prints the plan, -o writes it to a file; use one of them");
    command.output_path = "-";
  }
  if (command.rank && !command.output_path.empty()) {
    throw UsageError(name,
                     "--rank shows one rank's program and is no part of a plan file; use it without -o and --json");
  }
  if (!command.stop_after.empty() && (command.rank || !command.output_path.empty())) {
    throw UsageError(name, "--stop-after ends before there is a plan; use it without -o, --json and --rank");
  }
  return command;
}

void add_shard(CLI::App& app, RawShard& raw) {
  app.add_option("MODEL", raw.command.model_path, "model file (JSON)")->required();
  app.add_option("--tp", raw.tp, "ranks of the tensor-parallel axis; the same as --mesh tp=N")->type_name("N");
  app.add_option("--mesh", raw.mesh, "named axes, outermost first; known: dp, tp")->type_name("dp=N,tp=N");
  app.add_option("--batch", raw.batch, "replaces the model's size \"batch\"")->type_name("N");
  app.add_option("--seq", raw.seq, "replaces the model's size \"seq\"")->type_name("N");
  app.add_option("--dim", raw.dims, "replaces any named size; may be repeated")
      ->type_name("NAME=N")
      ->expected(1)
      ->take_all();
  app.add_option("--strategy", raw.command.strategy, "how placements are chosen; known: megatron")->type_name("NAME");
  app.add_flag("--sequence-parallel", raw.command.sequence_parallel,
               "split norms, dropout and residuals along the sequence");
  app.add_option("-o,--output", raw.command.output_path, "write the plan to a file (- is standard output)")
      ->type_name("PLAN");
  app.add_flag("--json", raw.json, "print the plan itself, as -o - does");
  app.add_option("--rank", raw.rank, "show the program of one rank")->type_name("R");
  app.add_option("--print-after", raw.command.print_after,
                 "print the graph after a pass, or after all; may be repeated")
      ->type_name("PASS")
      ->expected(1)
      ->take_all();
  app.add_option("--stop-after", raw.command.stop_after, "stop after a pass and print the graph")->type_name("PASS");
  app.add_option("--dump-dir", raw.command.dump_dir, "write the graph after every pass into a folder")
      ->type_name("DIR");
  app.footer(kShardExamples);
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

  const std::vector<std::string> commands{"shard", "report"};
  if (std::find(commands.begin(), commands.end(), first) == commands.end()) {
    std::string nearest = nearest_word(first, commands);
    std::string hint = nearest.empty() ? "known are shard, report" : fmt::format("did you mean \"{}\"?", nearest);
    throw UsageError("tpc", fmt::format("unknown {} \"{}\"; {}", first[0] == '-' ? "flag" : "command", first, hint));
  }
  const std::string command = "tpc " + first;
  CLI::App app(first == "shard"
                   ? "Decides how every tensor of a model is split over the ranks; shows or writes the plan."
                   : "Tells what a plan costs: communication, memory, arithmetic.",
               command);
  app.allow_extras();
  RawShard shard;
  ReportCommand report;
  bool json = false;
  bool csv = false;
  if (first == "shard") {
    add_shard(app, shard);
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
  if (first == "shard") return finish(std::move(shard));
  if (json && csv) throw UsageError(command, "--json and --csv are two forms of one report; use one of them");
  if (json) report.form = ReportCommand::Form::kJson;
  if (csv) report.form = ReportCommand::Form::kCsv;
  return report;
}

}  // namespace tpc
