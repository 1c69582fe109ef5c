#include "runtime/rank_devices.h"

#include <fmt/format.h>

#include <cstdio>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/core/philox.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/device_module.h"
#include "runtime/launch/launch_environment.h"
#include "runtime/launch/process_starter.h"
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
std::string identity_text(const RunOptions& options, const std::string& plan_text) {
  return fmt::format("{} seed {} steps {} data {} tf32 {} cudnn {}", hash_text(plan_text), options.seed, options.steps,
                     options.data, options.tf32, !options.no_cudnn);
}

// Which of the GPUs that this process sees is for its rank.
int device_of(const RunOptions& options, int64_t local_rank, int num_devices) {
  if (local_rank < num_devices) return static_cast<int>(local_rank);
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
    own.device = device_of(options, peers.rank() ? peers.local_rank() : rank, num_devices);
    own.check_run = [&peers, &world] {
      if (world.has_failed()) throw RunEnded();
      peers.check_run();
    };
    return module.open(own);
  };
}

std::unique_ptr<RunPeers> find_peers(const RunOptions& options, const Plan& plan, const std::string& plan_text,
                                     const std::string& build) {
  std::optional<Launch> launch =
      options.device == "cuda" && options.check == 0 ? find_launch(process_environment()) : std::nullopt;
  int64_t world = plan.mesh.world_size();
  if (!launch || (launch->world_size == 1 && world == 1)) return std::make_unique<RunPeers>();
  if (launch->world_size != world) {
    throw UserError({options.plan, ""}, fmt::format("the plan is for {} rank{}; {} has started {}", world,
                                                    world == 1 ? "" : "s", launch->source, launch->world_size));
  }
  bool may_share = launch->local_size == 0 || launch->local_size > cuda_module().num_devices();
  if (options.allow_shared_gpu && may_share) {
    set_shared_gpu_environment(launch->rank, launch->local_size == launch->world_size);
  }
  StoreIdentity identity{identity_text(options, plan_text), build, cuda_module().communicator_version()};
  return std::make_unique<RunPeers>(*launch, identity, patience(options));
}

std::optional<int> start_ranks(const RunOptions& options, const Plan& plan, int argc, char** argv) {
  int64_t world = plan.mesh.world_size();
  if (options.ranks > 0 && options.ranks != world) {
    throw UserError({options.plan, ""},
                    fmt::format("the plan is for {} rank{}, --ranks says {}; `tpc shard` makes plans for other numbers",
                                world, world == 1 ? "" : "s", options.ranks));
  }
  if (options.device != "cuda" || options.check > 0 || world == 1) return std::nullopt;
  if (find_launch(process_environment())) return std::nullopt;
  // What is missing is told once, and before anything is started.
  int num_devices = cuda_module().num_devices();
  device_of(options, world - 1, num_devices);
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

bool is_started_by_tprun() {
  try {
    std::optional<Launch> launch = find_launch(process_environment());
    return launch && launch->is_started_by_tprun();
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace tpc
