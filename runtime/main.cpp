// tprun: trains the model of a plan.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/core/diagnostic_renderer.h"
#include "compiler/core/output_file.h"
#include "compiler/core/philox.h"
#include "compiler/frontend/model.h"
#include "compiler/plan/plan_json.h"
#include "passes/one_rank_plan.h"
#include "passes/prove_plan.h"
#include "runtime/check/checked_run.h"
#include "runtime/check/double_run.h"
#include "runtime/check/trained_run.h"
#include "runtime/command_line.h"
#include "runtime/data.h"
#include "runtime/launch/rank_endings.h"
#include "runtime/mapped_file.h"
#include "runtime/rank_devices.h"
#include "runtime/run_peers.h"
#include "runtime/run_report.h"
#include "runtime/trainer.h"
#include "runtime/unit_profile.h"

namespace tpc {
namespace {

constexpr int kInputError = 1;
constexpr int kUsageError = 2;
constexpr int kOurError = 70;

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
  StepPrinter(const RunOptions& options, bool is_first)
      : is_quiet_(options.quiet || !is_first),
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

// On a terminal one line that tells how far a check is; nothing in a pipe.
class CheckPrinter {
 public:
  explicit CheckPrinter(const RunOptions& options) : is_shown_(!options.quiet && isatty(STDOUT_FILENO) == 1) {}
  ~CheckPrinter() {
    if (is_shown_) write_standard_output("\r\x1b[K");
  }
  CheckPrinter(const CheckPrinter&) = delete;
  CheckPrinter& operator=(const CheckPrinter&) = delete;

  void print(uint64_t step, std::string_view run, size_t done, size_t of) {
    auto now = std::chrono::steady_clock::now();
    if (!is_shown_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    write_standard_output(
        fmt::format("\r\x1b[Kcheck of training step {}: {}, {} of {} plan steps", step, run, done, of));
  }

 private:
  bool is_shown_;
  std::chrono::steady_clock::time_point last_;
};

std::string read_text(const std::string& file) {
  MappedFile mapped(file);
  auto bytes = mapped.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Model model_of(const Plan& plan, const std::string& file) {
  DiagnosticSink sink;
  return parse_embedded_model(plan.model_json, file, sink);
}

// A plan that does not compute its model must not train it.
void verify_plan(const Plan& plan, const std::string& file) {
  if (plan.model_json.empty()) {
    throw UserError({file, ""},
                    "the plan carries no model that it could be proved against; --no-verify runs it all the same");
  }
  Model model = model_of(plan, file);
  prove_plan(plan, std::move(model.graph), model.optimizer, file);
}

std::unique_ptr<DataSource> open_data(const Plan& plan, const RunOptions& options) {
  return options.data == "fixed" ? fixed_data(plan, options.seed) : file_data(plan, options.data, options.seed);
}

// Every process makes its batches itself; they must be the same.
void require_one_batch(const Batch& batch, RunPeers& peers, const std::string& data) {
  uint64_t hash = 0;
  for (const auto& [name, tensor] : batch) {
    std::string_view bytes(static_cast<const char*>(tensor.data()),
                           tensor.size() * static_cast<size_t>(byte_size(tensor.type.dtype)));
    PhiloxKey key = philox_key(hash, bytes);
    hash = (uint64_t{key[1]} << 32) | key[0];
  }
  std::vector<std::string> hashes = peers.gather("the first batch", fmt::format("{:016x}", hash));
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw UserError({data, ""},
                    fmt::format("rank {} reads another batch than rank 0; give all ranks the same data", rank));
  }
}

TrainerOptions trainer_options(const RunOptions& options) {
  return {options.seed, options.threads, std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3))};
}

void check(const RunOptions& options, const Plan& plan, RunPeers& peers) {
  if (plan.model_json.empty()) {
    throw UserError({options.plan, ""}, "the plan carries no model that its run could be compared with");
  }
  Model model = model_of(plan, options.plan);
  const Plan one_rank = one_rank_plan(std::move(model.graph), model.optimizer);
  require_check_memory(plan, one_rank, options.fp64 ? int64_t{sizeof(double)} : int64_t{sizeof(float)});
  MakeRun make_run = [&](const Plan& run) -> std::unique_ptr<ObservedRun> {
    if (options.fp64) return std::make_unique<DoubleRun>(run, options.seed);
    return std::make_unique<TrainedRun>(run, rank_devices(options, run, peers), trainer_options(options));
  };
  std::unique_ptr<DataSource> data = open_data(one_rank, options);
  std::string summary;
  {
    CheckPrinter printer(options);
    summary = checked_run(
        plan, one_rank, *data, make_run,
        {static_cast<uint64_t>(options.check), options.plan, [&](auto... progress) { printer.print(progress...); }});
  }
  if (!options.quiet) write_standard_output(summary);
}

// The fullest of all ranks.
std::optional<DeviceMemoryReport> device_memory(const Trainer& trainer, RunPeers& peers) {
  std::optional<RankMemory> own = trainer.memory_use();
  std::vector<std::string> texts =
      peers.gather("device memory", own ? fmt::format("{} {} {}", own->planned, own->use.held, own->use.used) : "");
  std::optional<DeviceMemoryReport> fullest;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    DeviceMemoryReport report{static_cast<int64_t>(rank), trainer.plan().arena_bytes, {}};
    std::istringstream numbers(texts[rank]);
    MemoryUse& use = report.memory.use;
    if (!(numbers >> report.memory.planned >> use.held >> use.used)) continue;
    if (!fullest || use.used > fullest->memory.use.used) fullest = report;
  }
  return fullest;
}

// Refuses what a run could not write at its end.
void require_output_paths(const RunOptions& options) {
  std::vector<std::string> taken = {options.plan, options.data};
  for (const std::string& path : {options.metrics, options.summary, options.profile}) {
    if (path.empty()) continue;
    require_output_path(path, taken);
    if (std::ranges::find(taken, path) != taken.end()) {
      throw UserError({path, ""}, "is named for two outputs; name another file for one of them");
    }
    taken.push_back(path);
  }
}

void train(const RunOptions& options, Plan plan, RunPeers& peers) {
  std::unique_ptr<DataSource> data = open_data(plan, options);
  // Of several processes the first tells.
  bool is_first = peers.is_first();
  if (is_first) require_output_paths(options);
  MetricsFile metrics(is_first ? options.metrics : "");
  auto tokens = static_cast<double>(tokens_per_batch(plan));
  TrainerOptions trainer_settings = trainer_options(options);
  if (peers.rank()) trainer_settings.ranks = {*peers.rank()};
  trainer_settings.gather = [&peers](std::string text) { return peers.gather("what is not finite", std::move(text)); };
  Trainer::MakeDevice devices = rank_devices(options, plan, peers);
  Trainer trainer(std::move(plan), std::move(devices), std::move(trainer_settings));

  auto num_steps = static_cast<uint64_t>(options.steps);
  uint64_t first_profiled = options.profile.empty() ? num_steps : first_profiled_step(num_steps);
  if (peers.rank()) require_one_batch(data->batch(0), peers, options.data);

  StepPrinter printer(options, is_first);
  std::vector<StepRecord> records;
  std::vector<std::vector<UnitTime>> unit_times;
  for (uint64_t step = 0; step < num_steps; ++step) {
    bool is_profiled = step >= first_profiled;
    if (step == first_profiled) trainer.time_units();
    auto start = std::chrono::steady_clock::now();
    StepResult result = trainer.train_step(data->batch(step));
    std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    records.push_back({step, result, taken.count(), tokens / taken.count() * 1e3, is_profiled});
    if (is_profiled) unit_times.push_back(trainer.unit_times());
    metrics.write(records.back());
    printer.print(records.back());
  }
  trainer.wait();
  Traffic counted = peers.sum(trainer.counted()), predicted = peers.sum(trainer.predicted());
  std::optional<DeviceMemoryReport> memory = device_memory(trainer, peers);
  bool is_told = is_first && !options.quiet;
  if (is_told) {
    write_standard_output(run_summary(records) + (memory ? memory_line(*memory) : "") +
                          traffic_table(counted, predicted));
  }
  trainer.check_traffic();
  if (is_told) write_standard_output("bytes counted = bytes predicted\n");
  if (is_first && !options.summary.empty()) {
    write_output_file(options.summary, summary_json(records, counted, predicted, memory));
  }
  if (is_first && !options.profile.empty()) {
    UnitProfile profile = unit_profile(unit_times);
    write_output_file(options.profile, profile_json(profile, trainer.plan(), options.device, /*rank=*/0));
    if (is_told) write_standard_output(profile_heading(profile) + profile_table(profile));
  }
  peers.finish();
}

// A failure of this rank ends the run on all. When it follows from another that was first, that one is told, here or
// elsewhere.
void run_with_peers(const RunOptions& options, Plan plan, RunPeers& peers) {
  auto pass_on = [&peers](const std::string& message) {
    std::optional<std::string> told = peers.fail(message);
    if (!told) throw RunEnded();
    if (*told != message) throw DeviceError(*told);
  };
  try {
    if (options.check > 0) {
      check(options, plan, peers);
    } else {
      train(options, std::move(plan), peers);
    }
  } catch (const RunEnded&) {
    throw;
  } catch (const std::exception& error) {
    pass_on(error.what());
    throw;
  }
}

int run_plan(const RunOptions& options, std::map<std::string, std::string>& texts, int argc, char** argv) {
  const std::string& text = texts[options.plan] = read_text(options.plan);
  Plan plan = read_plan(text, options.plan);
  if (!options.no_verify) verify_plan(plan, options.plan);
  if (std::optional<int> code = start_ranks(options, plan, argc, argv)) return *code;
  std::unique_ptr<RunPeers> peers = find_peers(options, plan, text, TPC_VERSION);
  run_with_peers(options, std::move(plan), *peers);
  return 0;
}

void print_errors(const UserError& error, const RunOptions& options, std::map<std::string, std::string>& texts) {
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
  RunOptions options;
  std::map<std::string, std::string> texts;
  try {
    options = parse_command_line(argc, argv);
    if (options.wants_help || options.wants_version) {
      write_standard_output(options.wants_help ? command_line_help() : fmt::format("tprun {}\n", TPC_VERSION));
    } else {
      return run_plan(options, texts, argc, argv);
    }
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "tprun: {}\nsee `tprun --help`\n", error.message);
    return kUsageError;
  } catch (const UserError& error) {
    print_errors(error, options, texts);
    return kInputError;
  } catch (const RunEnded&) {
    // The rank that failed tells.
    return is_started_by_tprun(options) ? kHeardOfFailure : kDeviceError;
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
