// tprun: trains the model of a plan.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/core/diagnostic_renderer.h"
#include "compiler/core/output_file.h"
#include "compiler/core/text_parts.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/plan_json.h"
#include "passes/prove_plan.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/mapped_file.h"
#include "runtime/run_report.h"
#include "runtime/trainer.h"

namespace tpc {
namespace {

constexpr int kInputError = 1;
constexpr int kUsageError = 2;
constexpr int kDeviceError = 69;
constexpr int kOurError = 70;

constexpr const char* kHelp = R"(usage: tprun PLAN [options]
Trains the model of a plan, which `tpc shard MODEL -o PLAN` writes.

  --data fixed|FILE  one random batch over and over (default), a text as bytes, or a .bin
                     file of uint16 tokens; targets are the tokens one further on
  --steps N          training steps (default 50)
  --seed N           of weights, dropout and data (default 0): the same run for any mesh
  --threads N        threads of each rank's kernels (default: cores / ranks, at least 1)
  --metrics FILE     writes one JSON object a step
  --log-every N      prints every N-th step (default 10), and the first and last
  --device cpu       where kernels run: cpu, or cuda where the module is installed
  --comm threads     how ranks communicate: as threads of this process
  --timeout S        seconds that a rank is waited for at a collective (default 60)
  --no-verify        runs a plan that is not proved to compute its model
  --quiet            prints errors only
  --version, --help

examples:
  tpc shard models/small_gpt.json --tp 2 -o plan.json && tprun plan.json
  tprun plan.json --steps 200 --seed 7 --metrics run.jsonl
  tpc shard models/tiny_gpt.json --tp 2 -o tiny.json
  tprun tiny.json --data models/data/tinyshakespeare.txt --steps 200

exit codes: 0 done, 1 the input is wrong, 2 usage, 69 device or peer failed, 70 our bug
)";

struct Options {
  std::string plan;
  std::string data = "fixed";
  int64_t steps = 50;
  uint64_t seed = 0;
  int threads = 0;
  std::string metrics;
  int64_t log_every = 10;
  std::string device = "cpu";
  std::string comm = "threads";
  double timeout = 60;
  bool quiet = false;
  bool no_verify = false;
};

// A mistake on the command line, as the whole message.
struct UsageError {
  std::string message;
};

// Accepts a whole number in [least, most] and nothing else, in words that name both.
template <class Number>
CLI::Validator number_in(Number least, Number most) {
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        std::optional<Number> value = parse_number<Number>(text);
        if (value && *value >= least && *value <= most) return "";
        const char* kind = std::is_integral_v<Number> ? "whole number" : "number";
        return fmt::format("\"{}\" is not a {} from {} to {}", text, kind, least, most);
      },
      "", "");
}

void reject_unknown(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& extra : app.remaining()) {
    if (!extra.starts_with("-")) throw UsageError{fmt::format("unexpected argument \"{}\" after the plan", extra)};
    std::string flag = extra.substr(0, extra.find('='));
    std::string nearest = nearest_word(flag, flags);
    throw UsageError{fmt::format("unknown flag \"{}\"{}", flag,
                                 nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest))};
  }
}

// nullopt when --help or --version was all.
std::optional<Options> parse_command_line(int argc, char** argv) {
  Options options;
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  bool wants_help = false, wants_version = false;
  app.add_option("plan", options.plan);
  app.add_option("--data", options.data);
  app.add_option("--steps", options.steps)->check(number_in<int64_t>(1, 1'000'000'000'000));
  app.add_option("--seed", options.seed)->check(number_in<uint64_t>(0, UINT64_MAX));
  app.add_option("--threads", options.threads)->check(number_in<int>(1, 1024));
  app.add_option("--metrics", options.metrics);
  app.add_option("--log-every", options.log_every)->check(number_in<int64_t>(1, 1'000'000'000'000));
  app.add_option("--device", options.device);
  app.add_option("--comm", options.comm);
  app.add_option("--timeout", options.timeout)->check(number_in<double>(0.001, 1e6));
  app.add_flag("--quiet", options.quiet);
  app.add_flag("--no-verify", options.no_verify);
  app.add_flag("--version", wants_version);
  app.add_flag("-h,--help", wants_help);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    // The flag stands before the colon.
    std::string text = error.what();
    bool is_repeated = text.find("received") != std::string::npos;
    throw UsageError{text.substr(0, text.find(':')) + (is_repeated ? ": given more than once" : ": needs a value")};
  } catch (const CLI::ParseError& error) {
    throw UsageError{error.what()};
  }
  if (wants_help) {
    write_standard_output(kHelp);
    return std::nullopt;
  }
  if (wants_version) {
    write_standard_output(fmt::format("tprun {}\n", TPC_VERSION));
    return std::nullopt;
  }
  reject_unknown(app);
  if (options.plan.empty()) throw UsageError{"which plan? `tpc shard MODEL -o plan.json` writes one"};
  if (options.device != "cpu" && options.device != "cuda") {
    throw UsageError{fmt::format("--device: \"{}\" is not a device; there are cpu and cuda", options.device)};
  }
  if (options.comm != "threads") {
    throw UsageError{fmt::format("--comm: \"{}\" is not a communicator; there is threads", options.comm)};
  }
  return options;
}

// The JSON lines of --metrics; each is on disk when its step is done.
class MetricsFile {
 public:
  explicit MetricsFile(const std::string& name) : name_(name) {
    if (name.empty()) return;
    file_ = std::fopen(name.c_str(), "w");
    if (file_ == nullptr) throw UserError({name, ""}, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
  ~MetricsFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const StepRecord& record) {
    if (file_ == nullptr) return;
    if (std::fputs(metrics_line(record).c_str(), file_) < 0 || std::fflush(file_) != 0) {
      throw DeviceError(fmt::format("cannot write \"{}\": {}", name_, std::strerror(errno)));
    }
  }

 private:
  std::string name_;
  std::FILE* file_ = nullptr;
};

// On a terminal one line that every step rewrites, and lines that stay; in a pipe the latter only.
class StepPrinter {
 public:
  explicit StepPrinter(const Options& options)
      : is_quiet_(options.quiet),
        is_terminal_(isatty(STDOUT_FILENO) == 1),
        log_every_(static_cast<uint64_t>(options.log_every)),
        num_steps_(static_cast<uint64_t>(options.steps)) {}
  // A message that follows starts on its own line.
  ~StepPrinter() {
    if (is_line_open_) write_standard_output("\n");
  }
  StepPrinter(const StepPrinter&) = delete;
  StepPrinter& operator=(const StepPrinter&) = delete;

  void print(const StepRecord& record) {
    if (is_quiet_) return;
    bool stays = record.step % log_every_ == 0 || record.step + 1 == num_steps_;
    if (is_terminal_) {
      write_standard_output(fmt::format("\r\x1b[K{}{}", step_line(record, num_steps_), stays ? "\n" : ""));
      is_line_open_ = !stays;
    } else if (stays) {
      write_standard_output(step_line(record, num_steps_) + "\n");
    }
  }

 private:
  bool is_quiet_;
  bool is_terminal_;
  uint64_t log_every_;
  uint64_t num_steps_;
  bool is_line_open_ = false;
};

std::string read_text(const std::string& file) {
  MappedFile mapped(file);
  auto bytes = mapped.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A plan that does not compute its model must not train it.
void verify_plan(const Plan& plan, const std::string& file) {
  if (plan.model_json.empty()) {
    throw UserError({file, ""},
                    "the plan carries no model that it could be proved against; --no-verify runs it all the same");
  }
  DiagnosticSink sink;
  Model model = parse_model(plan.model_json, file, {}, sink);
  prove_plan(plan, std::move(model.graph), model.optimizer, file);
}

void train(const Options& options, std::map<std::string, std::string>& texts) {
  const std::string& text = texts[options.plan] = read_text(options.plan);
  Plan plan = read_plan(text, options.plan);
  if (!options.no_verify) verify_plan(plan, options.plan);
  if (options.device == "cuda") throw DeviceError("--device cuda: the CUDA module is not installed; use --device cpu");
  std::unique_ptr<DataSource> data =
      options.data == "fixed" ? fixed_data(plan, options.seed) : file_data(plan, options.data, options.seed);
  if (!options.metrics.empty()) require_output_path(options.metrics, {options.plan, options.data});
  MetricsFile metrics(options.metrics);
  auto tokens = static_cast<double>(tokens_per_batch(plan));
  Trainer trainer(
      std::move(plan), make_cpu_backend,
      {options.seed, options.threads, std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3))});

  StepPrinter printer(options);
  std::vector<StepRecord> records;
  for (uint64_t step = 0; step < static_cast<uint64_t>(options.steps); ++step) {
    auto start = std::chrono::steady_clock::now();
    StepResult result = trainer.train_step(data->batch(step));
    std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    records.push_back({step, result, taken.count(), tokens / taken.count() * 1e3});
    metrics.write(records.back());
    printer.print(records.back());
  }
  if (!options.quiet) {
    write_standard_output(run_summary(records) + traffic_table(trainer.counted(), trainer.predicted()));
  }
  trainer.check_traffic();
  if (!options.quiet) write_standard_output("bytes counted = bytes predicted\n");
}

void print_errors(const UserError& error, const Options& options, std::map<std::string, std::string>& texts) {
  // A text of training data is shown around the mistake, too.
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (diagnostic.loc.file != options.data || diagnostic.byte < 0) continue;
    try {
      texts[options.data] = read_text(options.data);
    } catch (const UserError&) {
      // The message stands without the line.
      break;
    }
  }
  fmt::print(stderr, "{}", render_diagnostics(error.diagnostics(), texts));
}

int run(int argc, char** argv) {
  Options options;
  std::map<std::string, std::string> texts;
  try {
    std::optional<Options> parsed = parse_command_line(argc, argv);
    if (!parsed) return 0;
    options = *parsed;
    train(options, texts);
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "tprun: {}\nsee `tprun --help`\n", error.message);
    return kUsageError;
  } catch (const UserError& error) {
    print_errors(error, options, texts);
    return kInputError;
  } catch (const DeviceError& error) {
    fmt::print(stderr, "tprun: error: {}\n", error.what());
    return kDeviceError;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tprun: error: out of memory\n");
    return kDeviceError;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tprun: internal error: {}\n", error.what());
    return kOurError;
  }
}

}  // namespace
}  // namespace tpc

int main(int argc, char** argv) {
  tpc::prepare_standard_streams();
  int code = tpc::run(argc, argv);
  if (code == 0) return code;
  // A rank that never came back may still run: leave without tearing down what it uses.
  std::fflush(nullptr);
  std::_Exit(code);
}
