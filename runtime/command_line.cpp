#include "runtime/command_line.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

constexpr const char* kHelp = R"(usage: tprun PLAN [options]
Trains the model of a plan, which `tpc shard MODEL -o PLAN` writes.

  --data fixed|FILE  one random batch over and over (default), a text as bytes, or a .bin
                     file of uint16 tokens; targets are the tokens one further on
  --steps N          training steps (default 50)
  --seed N           of weights, dropout and data (default 0): the same run for any mesh
  --threads N        threads of each rank's kernels (default: cores / ranks, at least 1)
  --metrics FILE     writes one JSON object a step
  --summary FILE     writes one JSON object of the whole run: losses, time, bytes, device memory
  --profile FILE     measures every kernel and collective of the last steps, each alone; writes them
                     as JSON and prints the totals
  --log-every N      prints every N-th step (default 10), and the first and last
  --device cpu       where kernels run: cpu (ranks are threads of this process), or cuda (one
                     process and one GPU a rank, by NCCL)
  --timeout S        seconds that a rank is waited for at a collective (default 60)
  --check [K]        runs K steps (default 1) beside the model on one rank and compares every tensor
  --fp64             with --check: both in double, so that what differs is no rounding (slow)
  --no-verify        runs a plan that is not proved to compute its model
  --quiet            prints errors only
  --version, --help

with --device cuda:
  --ranks N          starts the N ranks on this machine (default: all of the plan, unless torchrun,
                     mpirun or srun has started this process)
  --rank R --world-size N [--local-rank L] --meeting HOST:PORT
                     this process is rank R of N, which meet there; for ranks started by hand
  --allow-shared-gpu several ranks on one GPU
  --no-graph         issues every step anew instead of replaying a CUDA graph
  --no-cudnn         attention in bf16 by tprun's own kernels instead of cuDNN's
  --tune             times several algorithms of cuBLASLt for each shape at the start
  --tf32             f32 products round their operands to TF32
  --nccl-windows     memory that peers write into directly (symmetric windows)

examples:
  tpc shard models/small_gpt.json --tp 2 -o plan.json && tprun plan.json
  tprun plan.json --steps 200 --seed 7 --metrics run.jsonl
  tpc shard models/tiny_gpt.json --tp 2 -o tiny.json
  tprun tiny.json --data models/data/tinyshakespeare.txt --steps 200
  tprun plan.json --check 3
  tprun plan.json --steps 10 --profile profile.json
  tprun plan.json --device cuda
  torchrun --nproc-per-node 8 --no-python tprun plan.json --device cuda

exit codes: 0 done, 1 the input is wrong, 2 usage, 69 device or peer failed, 70 our bug
)";

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

// The arguments last to first, as CLI11 takes them, with `--check 3` as `--check=3`: what follows is the flag's only
// when it is a number.
std::vector<std::string> check_joined(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    bool is_count = i > 1 && std::string_view(argv[i - 1]) == "--check" && parse_number<int64_t>(argv[i]).has_value();
    if (is_count) {
      arguments.back() += fmt::format("={}", argv[i]);
    } else {
      arguments.emplace_back(argv[i]);
    }
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

}  // namespace

std::string command_line_help() { return kHelp; }

RunOptions parse_command_line(int argc, char** argv) {
  RunOptions options;
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  app.add_option("plan", options.plan);
  app.add_option("--data", options.data);
  app.add_option("--steps", options.steps)->check(number_in<int64_t>(1, 1'000'000'000'000));
  app.add_option("--seed", options.seed)->check(number_in<uint64_t>(0, UINT64_MAX));
  app.add_option("--threads", options.threads)->check(number_in<int>(1, 1024));
  app.add_option("--metrics", options.metrics);
  app.add_option("--summary", options.summary);
  app.add_option("--profile", options.profile);
  app.add_option("--log-every", options.log_every)->check(number_in<int64_t>(1, 1'000'000'000'000));
  app.add_option("--device", options.device);
  app.add_option("--comm", options.comm);
  app.add_option("--timeout", options.timeout)->check(number_in<double>(0.001, 1e6));
  app.add_option("--ranks", options.ranks)->check(number_in<int64_t>(1, 1'000'000));
  app.add_option("--rank", options.launch.rank)->check(number_in<int64_t>(0, 1'000'000));
  app.add_option("--world-size", options.launch.world_size)->check(number_in<int64_t>(1, 1'000'000));
  app.add_option("--local-rank", options.launch.local_rank)->check(number_in<int64_t>(0, 1'000'000));
  app.add_option("--meeting", options.launch.meeting);
  app.add_flag("--allow-shared-gpu", options.allow_shared_gpu);
  app.add_flag("--no-graph", options.no_graph);
  app.add_flag("--no-cudnn", options.no_cudnn);
  app.add_flag("--tune", options.tune);
  app.add_flag("--tf32", options.tf32);
  app.add_flag("--nccl-windows", options.symmetric_memory);
  app.add_flag("--quiet", options.quiet);
  app.add_flag("--no-verify", options.no_verify);
  app.add_flag("--check{1}", options.check)->check(number_in<int64_t>(1, 1'000'000'000'000));
  app.add_flag("--fp64", options.fp64);
  app.add_flag("--version", options.wants_version);
  app.add_flag("-h,--help", options.wants_help);
  try {
    app.parse(check_joined(argc, argv));
  } catch (const CLI::ArgumentMismatch& error) {
    // The flag stands before the colon.
    std::string text = error.what();
    bool is_repeated = text.find("received") != std::string::npos;
    throw UsageError{text.substr(0, text.find(':')) + (is_repeated ? ": given more than once" : ": needs a value")};
  } catch (const CLI::ParseError& error) {
    throw UsageError{error.what()};
  }
  if (options.wants_help || options.wants_version) return options;
  reject_unknown(app);
  if (options.plan.empty()) throw UsageError{"which plan? `tpc shard MODEL -o plan.json` writes one"};
  if (options.device != "cpu" && options.device != "cuda") {
    throw UsageError{fmt::format("--device: \"{}\" is not a device; there are cpu and cuda", options.device)};
  }
  if (options.comm != "threads") {
    throw UsageError{fmt::format("--comm: \"{}\" is not a communicator; there is threads", options.comm)};
  }
  if (options.fp64 && options.check == 0) throw UsageError{"--fp64 goes with --check; training is as the plan says"};
  if (options.fp64 && options.device == "cuda") {
    throw UsageError{"--fp64 computes on the cpu, in double; leave out --device cuda"};
  }
  for (const char* flag : {"--ranks", "--rank", "--world-size", "--local-rank", "--meeting", "--allow-shared-gpu",
                           "--no-graph", "--no-cudnn", "--tune", "--tf32", "--nccl-windows"}) {
    if (options.device == "cuda" || app.count(flag) == 0) continue;
    throw UsageError{fmt::format("{} is for --device cuda", flag)};
  }
  for (const char* flag : {"--steps", "--metrics", "--summary", "--profile", "--log-every"}) {
    if (options.check == 0 || app.count(flag) == 0) continue;
    throw UsageError{fmt::format("{} is for training; --check K says how many steps are compared", flag)};
  }
  // A check runs all ranks in one process, and reads their memory.
  for (const char* flag :
       {"--ranks", "--rank", "--world-size", "--local-rank", "--meeting", "--allow-shared-gpu", "--nccl-windows"}) {
    if (options.check == 0 || app.count(flag) == 0) continue;
    throw UsageError{fmt::format("{} is for training; --check runs all ranks in one process, each on a GPU", flag)};
  }
  return options;
}

}  // namespace tpc
