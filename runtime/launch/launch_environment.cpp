#include "runtime/launch/launch_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/core/diagnostic.h"
#include "compiler/core/text_parts.h"
#include "runtime/launch/host_list.h"

namespace tpc {
namespace {

constexpr int64_t kMostRanks = 65536;
constexpr size_t kLongestRunId = 1000;
// From here on SLURM numbers what is no step of srun's: the batch script, the shell of salloc.
constexpr int64_t kFirstReservedStep = 0xfffffff0;
constexpr const char* kSayMeeting = "TPC_MEETING=host:port says where";

[[noreturn]] void refuse(const std::string& message) { throw UserError(SourceLoc{}, message); }

/// The variables of one launcher that tell who a rank is, by what they tell. The first name that is set counts.
struct Names {
  std::string source;
  std::vector<const char*> rank;
  std::vector<const char*> world_size;
  std::vector<const char*> local_rank;
  std::vector<const char*> local_size;
};

const Names kOwn = {"TPC_RANK", {"TPC_RANK"}, {"TPC_WORLD_SIZE"}, {"TPC_LOCAL_RANK"}, {"TPC_LOCAL_SIZE"}};
const Names kTorch = {"RANK and WORLD_SIZE", {"RANK"}, {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}};
const Names kOpenMpi = {"Open MPI",
                        {"OMPI_COMM_WORLD_RANK"},
                        {"OMPI_COMM_WORLD_SIZE"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE"}};
const Names kHydra = {"MPICH", {"PMI_RANK"}, {"PMI_SIZE"}, {"MPI_LOCALRANKID"}, {"MPI_LOCALNRANKS"}};
const Names kMvapich = {"MVAPICH",
                        {"MV2_COMM_WORLD_RANK"},
                        {"MV2_COMM_WORLD_SIZE"},
                        {"MV2_COMM_WORLD_LOCAL_RANK"},
                        {"MV2_COMM_WORLD_LOCAL_SIZE"}};
const Names kSlurm = {
    "SLURM", {"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, {"SLURM_LOCALID"}, {}};

class Reader {
 public:
  Reader(const Environment& environment, const LaunchFlags& flags) : environment_(environment), flags_(flags) {}

  std::optional<Launch> launch() const;

 private:
  std::string text(const std::string& name) const {
    auto entry = environment_.find(name);
    return entry == environment_.end() ? "" : entry->second;
  }
  bool is_set(const std::string& name) const { return !text(name).empty(); }
  const char* first_set(const std::vector<const char*>& names) const;
  bool names_any(const Names& names) const;

  int64_t number(const std::string& name, int64_t least, int64_t most) const;
  Launch identity(const Names& names) const;
  Launch of_flags() const;
  std::optional<Launch> of_environment() const;
  Launch of_torch() const;
  Launch of_slurm() const;
  bool is_slurm_step() const;
  bool is_slurm_rank(const char* rank) const;
  [[noreturn]] void refuse_pmix() const;
  void require_agreement(const Launch& launch) const;

  std::optional<MeetingPoint> given_meeting() const;
  std::optional<MeetingPoint> master(int64_t port_shift) const;
  void add_meeting(Launch& launch, std::optional<MeetingPoint> usual) const;

  const Environment& environment_;
  const LaunchFlags& flags_;
};

const char* Reader::first_set(const std::vector<const char*>& names) const {
  auto found = std::find_if(names.begin(), names.end(), [&](const char* name) { return is_set(name); });
  return found == names.end() ? nullptr : *found;
}

bool Reader::names_any(const Names& names) const {
  return first_set(names.rank) != nullptr || first_set(names.world_size) != nullptr ||
         first_set(names.local_rank) != nullptr || first_set(names.local_size) != nullptr;
}

int64_t Reader::number(const std::string& name, int64_t least, int64_t most) const {
  std::optional<int64_t> value = parse_number<int64_t>(text(name));
  if (!value || *value < least || *value > most) {
    refuse(fmt::format("environment variable {}: \"{}\" is not a whole number from {} to {}", name, text(name), least,
                       most));
  }
  return *value;
}

/// Rank, sizes and source; local_rank is -1 where no variable tells it.
Launch Reader::identity(const Names& names) const {
  std::vector<std::string> found, missing;
  for (const auto* set : {&names.rank, &names.world_size, &names.local_rank, &names.local_size}) {
    if (set->empty()) continue;
    bool is_needed = set == &names.rank || set == &names.world_size;
    if (const char* name = first_set(*set)) {
      found.push_back(fmt::format("{}={}", name, text(name)));
    } else if (is_needed) {
      missing.emplace_back(set->front());
    }
  }
  if (!missing.empty()) {
    refuse(fmt::format("the environment tells half of a launch by {}: found {}, missing {}; set all or none",
                       names.source, fmt::join(found, ", "), fmt::join(missing, ", ")));
  }
  const char* size = first_set(names.world_size);
  Launch launch;
  launch.source = names.source;
  launch.world_size = number(size, 1, kMostRanks);
  launch.rank = number(first_set(names.rank), 0, kMostRanks);
  const char* local_rank = first_set(names.local_rank);
  launch.local_rank = local_rank == nullptr ? -1 : number(local_rank, 0, kMostRanks);
  const char* local_size = first_set(names.local_size);
  launch.local_size = local_size == nullptr ? 0 : number(local_size, 1, kMostRanks);
  bool is_possible = launch.rank < launch.world_size && launch.local_rank < launch.world_size &&
                     launch.local_size <= launch.world_size &&
                     (launch.local_size == 0 || launch.local_rank < launch.local_size);
  if (!is_possible) {
    refuse(fmt::format("the environment contradicts itself on the launch by {}: {}", names.source,
                       fmt::join(found, ", ")));
  }
  return launch;
}

std::optional<MeetingPoint> Reader::given_meeting() const {
  std::string given = flags_.meeting.value_or(text("TPC_MEETING"));
  if (given.empty()) return std::nullopt;
  std::optional<MeetingPoint> point = parse_meeting_point(given);
  if (!point) {
    refuse(fmt::format("{}: \"{}\" is not host:port (an address of version 6 as [::1]:29500)",
                       flags_.meeting ? "--meeting" : "environment variable TPC_MEETING", given));
  }
  return point;
}

/// MASTER_ADDR and MASTER_PORT, both or neither.
std::optional<MeetingPoint> Reader::master(int64_t port_shift) const {
  bool has_host = is_set("MASTER_ADDR");
  bool has_port = is_set("MASTER_PORT");
  if (!has_host && !has_port) return std::nullopt;
  if (!has_host || !has_port) {
    refuse(fmt::format("the environment tells half of where the ranks meet: found {}, missing {}",
                       has_host ? "MASTER_ADDR" : "MASTER_PORT", has_host ? "MASTER_PORT" : "MASTER_ADDR"));
  }
  return MeetingPoint{text("MASTER_ADDR"), static_cast<int>(number("MASTER_PORT", 1, 65535 - port_shift) + port_shift)};
}

/// Sets where the ranks meet, and the local rank where that tells it.
void Reader::add_meeting(Launch& launch, std::optional<MeetingPoint> usual) const {
  std::optional<MeetingPoint> given = given_meeting();
  launch.meeting = given ? given : std::move(usual);
  if (!launch.meeting && launch.world_size > 1) {
    refuse(
        fmt::format("rank {} of {} was started by {}, which does not tell where the ranks meet; {} rank 0 can listen, "
                    "or MASTER_ADDR and MASTER_PORT do",
                    launch.rank, launch.world_size, launch.source, kSayMeeting));
  }
  if (launch.local_rank >= 0) return;
  if (launch.meeting && !is_this_machine(*launch.meeting)) {
    refuse(
        fmt::format("rank {} of {} was started by {}, and the ranks meet at {}, but nothing tells its place among "
                    "the ranks of its host; {} does",
                    launch.rank, launch.world_size, launch.source, to_string(*launch.meeting),
                    launch.source == kTorch.source ? "LOCAL_RANK"
                                                   : "TPC_LOCAL_RANK, with TPC_RANK and "
                                                     "TPC_WORLD_SIZE,"));
  }
  // Who meets at a loopback address is on one machine.
  launch.local_rank = launch.rank;
  launch.local_size = launch.world_size;
}

Launch Reader::of_flags() const {
  if (!flags_.rank || !flags_.world_size) {
    refuse(fmt::format("--rank and --world-size go together; {} is missing", flags_.rank ? "--world-size" : "--rank"));
  }
  Launch launch;
  launch.source = "the command line";
  launch.rank = *flags_.rank;
  launch.world_size = *flags_.world_size;
  launch.local_rank = flags_.local_rank.value_or(-1);
  bool is_possible = launch.rank >= 0 && launch.rank < launch.world_size && launch.world_size <= kMostRanks &&
                     launch.local_rank < launch.world_size;
  if (!is_possible) {
    refuse(fmt::format("there is no --rank {} of --world-size {}{}", launch.rank, launch.world_size,
                       flags_.local_rank ? fmt::format(" with --local-rank {}", *flags_.local_rank) : ""));
  }
  add_meeting(launch, master(0));
  return launch;
}

Launch Reader::of_torch() const {
  Launch launch = identity(kTorch);
  std::string id = text("TORCHELASTIC_RUN_ID");
  if (!id.empty()) launch.source = "torchrun";
  launch.run_id = id;
  if (is_set("TORCHELASTIC_RESTART_COUNT")) launch.restart = number("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX);
  // torchrun itself listens at MASTER_PORT then.
  std::string agent = text("TORCHELASTIC_USE_AGENT_STORE");
  bool is_taken = agent == "True" || agent == "true" || agent == "1";
  add_meeting(launch, given_meeting() ? std::nullopt : master(is_taken ? 1 : 0));
  return launch;
}

bool Reader::is_slurm_step() const {
  if (!is_set("SLURM_STEP_ID") || !is_set("SLURM_PROCID")) return false;
  return number("SLURM_STEP_ID", 0, UINT32_MAX) < kFirstReservedStep;
}

/// srun --mpi=pmi2 and --mpi=pmix set the variables of those beside SLURM's own, which tell more.
bool Reader::is_slurm_rank(const char* rank) const {
  return is_slurm_step() && is_set(rank) && number(rank, 0, kMostRanks) == number("SLURM_PROCID", 0, kMostRanks);
}

Launch Reader::of_slurm() const {
  Launch launch = identity(kSlurm);
  launch.run_id = fmt::format("{}.{}", text("SLURM_JOB_ID"), text("SLURM_STEP_ID"));
  if (is_set("SLURM_RESTART_COUNT")) launch.restart = number("SLURM_RESTART_COUNT", 0, INT32_MAX);
  if (launch.local_rank < 0 && launch.world_size > 1) {
    refuse(
        fmt::format("the environment tells half of a launch by SLURM: found SLURM_PROCID={}, missing SLURM_LOCALID; "
                    "set all or none",
                    text("SLURM_PROCID")));
  }
  std::optional<std::vector<int64_t>> counts = expand_task_counts(text("SLURM_STEP_TASKS_PER_NODE"));
  std::optional<size_t> node = parse_number<size_t>(text("SLURM_NODEID"));
  if (counts && node && *node < counts->size()) launch.local_size = (*counts)[*node];
  if (launch.local_size > 0 && launch.local_rank >= launch.local_size) {
    refuse(
        fmt::format("the environment contradicts itself on the launch by SLURM: SLURM_LOCALID={}, "
                    "SLURM_STEP_TASKS_PER_NODE={}, SLURM_NODEID={}",
                    text("SLURM_LOCALID"), text("SLURM_STEP_TASKS_PER_NODE"), text("SLURM_NODEID")));
  }

  std::optional<MeetingPoint> usual;
  if (!given_meeting()) usual = master(0);
  if (!usual && !given_meeting() && launch.world_size > 1) {
    std::optional<std::vector<std::string>> hosts = expand_host_list(text("SLURM_STEP_NODELIST"));
    if (!hosts || !is_set("SLURM_JOB_ID")) {
      refuse(
          fmt::format("rank {} of {} was started by SLURM, and SLURM_STEP_NODELIST={} with SLURM_JOB_ID={} does not "
                      "tell where the ranks meet; {} rank 0 can listen",
                      launch.rank, launch.world_size, text("SLURM_STEP_NODELIST"), text("SLURM_JOB_ID"), kSayMeeting));
    }
    usual = MeetingPoint{hosts->front(), static_cast<int>(15000 + number("SLURM_JOB_ID", 0, UINT32_MAX) % 20000)};
  }
  add_meeting(launch, std::move(usual));
  return launch;
}

/// PMIx alone tells the number of ranks only through its library.
void Reader::refuse_pmix() const {
  refuse(
      fmt::format("rank {} was started by PMIx, which does not tell the number of ranks in the environment: found "
                  "PMIX_RANK, missing the size; set TPC_RANK=$PMIX_RANK, TPC_WORLD_SIZE, TPC_LOCAL_RANK and "
                  "TPC_MEETING=host:port in a script that starts tprun",
                  text("PMIX_RANK")));
}

/// Two launchers that count the same number of ranks, but give this process two places among them, are a mistake: RANK
/// exported for all ranks of mpirun, or variables of an earlier launch. Launchers that count differently are nested:
/// srun starts one torchrun a host. What torchrun's agents agree on, and how SLURM counts other launchers' daemons,
/// need not follow any other order.
void Reader::require_agreement(const Launch& launch) const {
  bool is_by_hand = launch.source == kTorch.source;
  if (!is_by_hand && launch.source != kOpenMpi.source && launch.source != kHydra.source) return;
  for (const Names* names : {&kOpenMpi, &kHydra, &kMvapich}) {
    const char* rank = first_set(names->rank);
    const char* size = first_set(names->world_size);
    if (rank == nullptr || size == nullptr || number(size, 1, kMostRanks) != launch.world_size) continue;
    if (number(rank, 0, kMostRanks) == launch.rank) continue;
    refuse(fmt::format("this process is rank {} of {} by {}, but rank {} by {}: unset the variables of one of them",
                       launch.rank, launch.world_size, launch.source, text(rank), names->source));
  }
  bool is_pmix = launch.source == kOpenMpi.source && is_set("PMIX_RANK");
  if (is_pmix && number("PMIX_RANK", 0, kMostRanks) != launch.rank) {
    refuse(
        fmt::format("this process is rank {} of {} by Open MPI, but PMIX_RANK={}: unset the variables of one of them",
                    launch.rank, launch.world_size, text("PMIX_RANK")));
  }
}

std::optional<Launch> Reader::of_environment() const {
  auto of_mpi = [&](const Names& names, std::string run_id) {
    Launch launch = identity(names);
    launch.run_id = std::move(run_id);
    add_meeting(launch, given_meeting() ? std::nullopt : master(0));
    return launch;
  };
  if (names_any(kOwn)) {
    Launch launch = identity(kOwn);
    if (is_set("TPC_STARTER")) launch.source = "tprun --ranks";
    if (is_set("TPC_RESTART")) launch.restart = number("TPC_RESTART", 0, INT32_MAX);
    if (is_set("TPC_LISTENER") && launch.rank == 0) {
      launch.listener = static_cast<int>(number("TPC_LISTENER", 0, INT32_MAX));
    }
    add_meeting(launch, given_meeting() ? std::nullopt : master(0));
    return launch;
  }
  if (names_any(kTorch)) return of_torch();
  if (names_any(kOpenMpi)) return of_mpi(kOpenMpi, text("PMIX_NAMESPACE"));
  bool is_srun_pmi = is_slurm_rank("PMI_RANK") && !is_set("MPI_LOCALRANKID");
  bool is_hydra = first_set(kHydra.rank) != nullptr || first_set(kHydra.world_size) != nullptr;
  if (is_hydra && !is_srun_pmi) return of_mpi(kHydra, "");
  if (names_any(kMvapich)) return of_mpi(kMvapich, "");
  if (is_set("PMIX_RANK") && !is_slurm_rank("PMIX_RANK")) refuse_pmix();
  if (is_slurm_step()) return of_slurm();
  return std::nullopt;
}

std::optional<Launch> Reader::launch() const {
  std::optional<Launch> launch;
  if (flags_.rank || flags_.world_size || flags_.local_rank) {
    launch = of_flags();
  } else {
    launch = of_environment();
    if (launch) require_agreement(*launch);
  }
  if (!launch) {
    if (!given_meeting()) return std::nullopt;
    refuse(
        fmt::format("{} tells where ranks meet, but nothing tells which rank this process is; TPC_RANK, "
                    "TPC_WORLD_SIZE and TPC_LOCAL_RANK do",
                    flags_.meeting ? "--meeting" : "TPC_MEETING"));
  }
  if (is_set("TPC_RUN_ID")) launch->run_id = text("TPC_RUN_ID");
  if (launch->run_id.size() > kLongestRunId) {
    refuse(fmt::format("the run's id has {} characters, more than {}; TPC_RUN_ID sets a shorter one",
                       launch->run_id.size(), kLongestRunId));
  }
  return launch;
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Environment variables_of(const Launch& launch) {
  Environment variables = {{"TPC_RANK", std::to_string(launch.rank)},
                           {"TPC_WORLD_SIZE", std::to_string(launch.world_size)},
                           {"TPC_LOCAL_RANK", std::to_string(launch.local_rank)},
                           {"TPC_RUN_ID", launch.run_id},
                           {"TPC_RESTART", std::to_string(launch.restart)}};
  if (launch.local_size > 0) variables["TPC_LOCAL_SIZE"] = std::to_string(launch.local_size);
  if (launch.meeting) variables["TPC_MEETING"] = to_string(*launch.meeting);
  if (launch.listener >= 0) variables["TPC_LISTENER"] = std::to_string(launch.listener);
  if (launch.is_started_by_tprun()) variables["TPC_STARTER"] = "tprun";
  return variables;
}

std::optional<Launch> find_launch(const Environment& environment, const LaunchFlags& flags) {
  return Reader(environment, flags).launch();
}

}  // namespace tpc
