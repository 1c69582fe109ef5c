// A rank of a run that only meets, fails or dies; with --ranks it starts such ranks, as tprun does.
//
// usage: tpc_launched_rank [--ranks N] ACTION [RANK]
//   meet         all ranks gather who they are; rank 0 prints it
//   say          every rank writes a line that is its own and one that is all ranks', to standard error
//   fail RANK    the rank fails with a message, and exits with 1
//   die RANK     the rank is killed
//   stop RANK    the rank is stopped, and never goes on
//   quit RANK    the rank exits with 3 before it meets the others, and says nothing
//   stay RANK    rank 0 fails, and the rank does not end
//   sleep        all ranks sleep until they are killed
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "compiler/core/diagnostic.h"
#include "runtime/communicator.h"
#include "runtime/launch/control_store.h"
#include "runtime/launch/process_starter.h"

namespace tpc {
namespace {

using std::chrono_literals::operator""ms;

constexpr auto kPatience = 60'000ms;

int start(int64_t ranks, int argc, char** argv) {
  StarterOptions options;
  options.ranks = ranks;
  options.arguments.assign(argv, argv + argc);
  options.grace = 1500ms;
  options.tell = [](std::string_view line) { fmt::print(stderr, "{}", line); };
  StarterOutcome outcome = run_processes(options);
  if (!outcome.message.empty()) fmt::print(stderr, "error: {}\n", outcome.message);
  return outcome.exit_code;
}

void act(ControlStore& store, const std::string& action, bool is_chosen) {
  if (action == "say") {
    fmt::print(stderr, "here is rank {} of the run\nall ranks say this\n", store.rank());
  }
  if (action == "fail" && is_chosen) {
    if (std::optional<std::string> told = store.fail("it failed")) throw UserError(SourceLoc{}, *told);
    throw RunEnded();
  }
  if (action == "die" && is_chosen) raise(SIGKILL);
  if (action == "stop" && is_chosen) raise(SIGSTOP);
  if (action == "stay" && store.rank() == 0) {
    store.fail("it failed");
    throw UserError(SourceLoc{}, "it failed");
  }
  if (action == "stay" && is_chosen) std::this_thread::sleep_for(kPatience);
  std::string all;
  for (const std::string& text : store.all_gather("ranks", fmt::format("{}", store.rank()), kPatience)) {
    all += text + " ";
  }
  fmt::print("rank {} of {}: {}\n", store.rank(), store.world_size(), all);
  std::fflush(stdout);
  store.finish(kPatience);
}

int run_rank(const Launch& launch, const std::string& action, bool is_chosen) {
  if (action == "sleep") {
    fmt::print(stderr, "process {}\n", getpid());
    std::this_thread::sleep_for(kPatience);
  }
  if (action == "quit" && is_chosen) return 3;
  try {
    ControlStore store(launch, {"plan", "", "build", ""}, {60'000ms, action == "stop" ? 500ms : 10'000ms});
    act(store, action, is_chosen);
    return 0;
  } catch (const UserError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (const RunEnded&) {
    return launch.is_started_by_tprun() ? kHeardOfFailure : 69;
  } catch (const DeviceError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 69;
  }
}

int run(int argc, char** argv) {
  std::optional<Launch> launch = find_launch(process_environment());
  int at = 1;
  int64_t ranks = 1;
  if (at + 1 < argc && std::string(argv[at]) == "--ranks") {
    ranks = std::atoll(argv[at + 1]);
    at += 2;
  }
  if (at >= argc) return 2;
  if (!launch) return start(ranks, argc, argv);
  bool is_chosen = at + 1 < argc && std::atoll(argv[at + 1]) == launch->rank;
  return run_rank(*launch, argv[at], is_chosen);
}

}  // namespace
}  // namespace tpc

int main(int argc, char** argv) {
  int code = tpc::run(argc, argv);
  std::fflush(nullptr);
  // As tprun, which may leave a rank's threads behind.
  std::_Exit(code);
}
