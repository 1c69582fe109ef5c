#include "runtime/rank_devices.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/core/philox.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/device_module.h"
#include "runtime/launch/launch_environment.h"
#include "runtime/launch/process_starter.h"
#include "runtime/launch/rank_endings.h"
#include "runtime/shared_gpu.h"
#include "runtime/threads/thread_communicator.h"

namespace tpc {
namespace {

std::chrono::milliseconds patience(const RunOptions& options) {
  return std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1e3));
}

std::string hash_text(const std::string& text) {
  PhiloxKey key = philox_key(/*seed=*/0, text);
  return fmt::format("{:08x}{:08x}", key[1], key[0]);
}

// What changes what is computed, and so must be the same everywhere.
std::string shared_options(const RunOptions& options) {
  auto flag = [](bool is_set, std::string_view name) { return is_set ? fmt::format(" {}", name) : ""; };
  return fmt::format("--steps {} --seed {}{}{}{}", options.steps, options.seed, flag(options.tf32, "--tf32"),
                     flag(options.tune, "--tune"), flag(options.no_cudnn, "--no-cudnn"));
}

// Which of the GPUs that this process sees is for its rank. A launcher may show each process its own GPU alone: if two
// see the same one, NCCL says so.
int device_of(const RunOptions& options, int64_t local_rank, int num_devices, bool is_launched) {
  if (local_rank < num_devices) return static_cast<int>(local_rank);
  if (num_devices == 1 && is_launched) return 0;
  if (options.allow_shared_gpu) return static_cast<int>(local_rank % num_devices);
  throw DeviceError(
      fmt::format("rank {} of this machine has no GPU: {} {} visible; start fewer ranks here, or share GPUs with "
                  "--allow-shared-gpu",
                  local_rank, num_devices, num_devices == 1 ? "is" : "are"));
}

}  // namespace

Trainer::MakeDevice rank_devices(const RunOptions& options, const Plan& plan, RunPeers& peers) {
  if (options.device == "cpu") {
    return [](int64_t rank, ThreadWorld& world) -> RankDevice {
      return {make_cpu_backend(), std::make_unique<ThreadCommunicator>(world, rank)};
    };
  }
  DeviceModule& module = cuda_module();
  int num_devices = module.num_devices();
  DeviceSettings settings;
  settings.world_size = plan.mesh.world_size();
  settings.timeout = patience(options);
  settings.tf32 = options.tf32;
  settings.tune = options.tune;
  settings.use_graphs = !options.no_graph;
  settings.use_cudnn = !options.no_cudnn;
  settings.symmetric_memory = options.symmetric_memory;
  if (settings.world_size > 1) {
    settings.meeting = peers.from_first("the meeting of NCCL", peers.is_first() ? module.make_meeting() : "");
  }
  return [&options, &peers, &module, settings, num_devices](int64_t rank, ThreadWorld& world) {
    DeviceSettings own = settings;
    own.rank = rank;
    own.device = device_of(options, peers.rank() ? peers.local_rank() : rank, num_devices, peers.rank().has_value());
    own.check_run = [&peers, &world] {
      if (world.has_failed()) throw RunEnded();
      peers.check_run();
    };
    return module.open(own);
  };
}

std::unique_ptr<RunPeers> find_peers(const RunOptions& options, const Plan& plan, const std::string& plan_text,
                                     const std::string& build) {
  std::optional<Launch> launch = find_launch(process_environment(), options.launch);
  int64_t world = plan.mesh.world_size();
  bool is_one_process = options.device == "cpu" || options.check > 0;
  if (launch && launch->world_size > 1 && is_one_process) {
    throw UserError({options.plan, ""},
                    fmt::format("by {} there are {} processes, and one runs all ranks {}; start one{}", launch->source,
                                launch->world_size, options.check > 0 ? "of a check" : "on the cpu",
                                options.check > 0 ? "" : ", or use --device cuda"));
  }
  if (!launch || (launch->world_size == 1 && world == 1)) return std::make_unique<RunPeers>();
  if (launch->world_size != world) {
    throw UserError({options.plan, ""}, fmt::format("the plan is for {} rank{}; by {} there are {}", world,
                                                    world == 1 ? "" : "s", launch->source, launch->world_size));
  }
  bool may_share = launch->local_size == 0 || launch->local_size > cuda_module().num_devices();
  if (options.allow_shared_gpu && may_share) {
    set_shared_gpu_environment(launch->rank, launch->local_size == launch->world_size);
  }
  StoreIdentity identity{hash_text(plan_text), shared_options(options), build, cuda_module().communicator_version()};
  // A rank that hangs in a call of its device is not waited for.
  auto when_stuck = [is_started = launch->is_started_by_tprun()](const std::optional<std::string>& told) {
    if (told) fmt::print(stderr, "tprun: error: {}\n", *told);
    std::_Exit(!told && is_started ? kHeardOfFailure : kDeviceError);
  };
  return std::make_unique<RunPeers>(*launch, identity, patience(options), when_stuck);
}

std::optional<int> start_ranks(const RunOptions& options, const Plan& plan, int argc, char** argv) {
  int64_t world = plan.mesh.world_size();
  if (options.ranks > 0 && options.ranks != world) {
    throw UserError({options.plan, ""},
                    fmt::format("the plan is for {} rank{}, --ranks says {}; `tpc shard` makes plans for other numbers",
                                world, world == 1 ? "" : "s", options.ranks));
  }
  if (options.device != "cuda" || options.check > 0 || world == 1) return std::nullopt;
  if (find_launch(process_environment(), options.launch)) return std::nullopt;
  // What is missing is told once, and before anything is started.
  int num_devices = cuda_module().num_devices();
  device_of(options, world - 1, num_devices, /*is_launched=*/false);
  StarterOptions starter;
  starter.ranks = world;
  starter.arguments.assign(argv, argv + argc);
  // It has been verified here.
  if (!options.no_verify) starter.arguments.emplace_back("--no-verify");
  starter.tell = [](std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); };
  StarterOutcome outcome = run_processes(starter);
  if (!outcome.message.empty()) fmt::print(stderr, "tprun: error: {}\n", outcome.message);
  return outcome.exit_code;
}

bool is_started_by_tprun(const RunOptions& options) {
  try {
    std::optional<Launch> launch = find_launch(process_environment(), options.launch);
    return launch && launch->is_started_by_tprun();
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace tpc
