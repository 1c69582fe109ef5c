// What launchers tell in the environment, and what of it cannot be believed.
#include "runtime/launch/launch_environment.h"

#include <doctest/doctest.h>

#include "compiler/core/diagnostic.h"
#include "runtime/launch/host_list.h"

namespace tpc {
namespace {

using Strings = std::vector<std::string>;

Launch launch_of(const Environment& environment, const LaunchFlags& flags = {}) {
  std::optional<Launch> launch = find_launch(environment, flags);
  REQUIRE(launch.has_value());
  return *launch;
}

std::string refusal_of(const Environment& environment, const LaunchFlags& flags = {}) {
  try {
    std::optional<Launch> launch = find_launch(environment, flags);
    return launch ? "launched by " + launch->source : "not launched";
  } catch (const UserError& error) {
    REQUIRE(error.diagnostics().size() == 1);
    return error.diagnostics().front().message;
  }
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

struct Expected {
  int64_t rank, world_size, local_rank, local_size;
  std::string source, meeting, run_id;
  int64_t restart = 0;
};

void check_launch(const Launch& launch, const Expected& expected) {
  CHECK(launch.rank == expected.rank);
  CHECK(launch.world_size == expected.world_size);
  CHECK(launch.local_rank == expected.local_rank);
  CHECK(launch.local_size == expected.local_size);
  CHECK(launch.source == expected.source);
  CHECK((launch.meeting ? to_string(*launch.meeting) : "") == expected.meeting);
  CHECK(launch.run_id == expected.run_id);
  CHECK(launch.restart == expected.restart);
}

// As the launchers set them, on two hosts of four ranks each; this is rank 5.
const Environment kMaster = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
const Environment kTorchrun = with(kMaster, {{"RANK", "5"},
                                             {"WORLD_SIZE", "8"},
                                             {"LOCAL_RANK", "1"},
                                             {"LOCAL_WORLD_SIZE", "4"},
                                             {"GROUP_RANK", "1"},
                                             {"TORCHELASTIC_RUN_ID", "none"},
                                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                                             {"TORCHELASTIC_USE_AGENT_STORE", "False"}});
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                              {"OMPI_COMM_WORLD_SIZE", "8"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_RANK", "5"},
                              {"PMIX_NAMESPACE", "3120562177"}};
const Environment kHydra = {
    {"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}, {"PMI_FD", "7"}};
const Environment kMvapich = {{"MV2_COMM_WORLD_RANK", "5"},
                              {"MV2_COMM_WORLD_SIZE", "8"},
                              {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                              {"MV2_COMM_WORLD_LOCAL_SIZE", "4"}};
const Environment kSlurmJob = {{"SLURM_JOB_ID", "123456"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"},
                               {"SLURM_LOCALID", "0"},     {"SLURM_NODEID", "0"}, {"SLURM_JOB_NODELIST", "n[07-08]"}};
const Environment kSlurmStep = with(kSlurmJob, {{"SLURM_STEP_ID", "3"},
                                                {"SLURM_STEP_NUM_TASKS", "8"},
                                                {"SLURM_PROCID", "5"},
                                                {"SLURM_LOCALID", "1"},
                                                {"SLURM_NODEID", "1"},
                                                {"SLURM_STEP_NODELIST", "n[07-08]"},
                                                {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
const Environment kOwn = {{"TPC_RANK", "2"}, {"TPC_WORLD_SIZE", "4"}, {"TPC_MEETING", "127.0.0.1:4000"}};

TEST_CASE("launch: every launcher tells rank, sizes and meeting point in its own variables") {
  check_launch(launch_of(kTorchrun), {5, 8, 1, 4, "torchrun", "node1:29500", "none", 2});
  check_launch(launch_of(with(kOpenMpi, kMaster)), {5, 8, 1, 4, "Open MPI", "node1:29500", "3120562177"});
  check_launch(launch_of(with(kHydra, kMaster)), {5, 8, 1, 4, "MPICH", "node1:29500", ""});
  check_launch(launch_of(with(kMvapich, kMaster)), {5, 8, 1, 4, "MVAPICH", "node1:29500", ""});
  // 15000 + 123456 % 20000
  check_launch(launch_of(kSlurmStep), {5, 8, 1, 4, "SLURM", "n07:18456", "123456.3"});
  check_launch(launch_of(kOwn), {2, 4, 2, 4, "TPC_RANK", "127.0.0.1:4000", ""});
  CHECK_FALSE(find_launch({}).has_value());
  CHECK_FALSE(find_launch(kMaster).has_value());
  CHECK_FALSE(find_launch({{"RANK", ""}, {"TPC_RANK", ""}}).has_value());
}

TEST_CASE("launch: a launcher hides those after it") {
  Environment all = with(kMaster, {});
  const std::vector<std::pair<const Environment*, std::string>> order = {
      {&kSlurmStep, "SLURM"},  {&kMvapich, "MVAPICH"},   {&kHydra, "MPICH"},
      {&kOpenMpi, "Open MPI"}, {&kTorchrun, "torchrun"}, {&kOwn, "TPC_RANK"}};
  for (const auto& [environment, source] : order) {
    all = with(all, *environment);
    CHECK(launch_of(all).source == source);
  }
  LaunchFlags flags;
  flags.rank = 1;
  flags.world_size = 2;
  flags.meeting = "[::1]:7000";
  check_launch(launch_of(all, flags), {1, 2, 1, 2, "the command line", "[::1]:7000", ""});
}

TEST_CASE("launch: the starter's ranks find what it tells them") {
  Launch launch;
  launch.rank = launch.local_rank = 0;
  launch.world_size = launch.local_size = 3;
  launch.source = "tprun --ranks";
  launch.meeting = MeetingPoint{"127.0.0.1", 41000};
  launch.run_id = "8f3a";
  launch.restart = 1;
  launch.listener = 9;
  Launch found = launch_of(with(kSlurmStep, variables_of(launch)));
  check_launch(found, {0, 3, 0, 3, "tprun --ranks", "127.0.0.1:41000", "8f3a", 1});
  CHECK(found.listener == 9);
  CHECK(found.is_started_by_tprun());
}

TEST_CASE("launch: torchrun that listens at its port itself leaves the next one") {
  CHECK(launch_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).meeting->port == 29501);
  Environment given = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TPC_MEETING", "node1:29600"}});
  CHECK(to_string(*launch_of(given).meeting) == "node1:29600");
  Environment last = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}});
  CHECK(refusal_of(last) == "environment variable MASTER_PORT: \"65535\" is not a whole number from 1 to 65534");
}

TEST_CASE("launch: RANK and WORLD_SIZE alone do on one machine") {
  Environment by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
  check_launch(launch_of(by_hand), {1, 2, 1, 2, "RANK and WORLD_SIZE", "localhost:29500", ""});
  std::string refusal = refusal_of(with(by_hand, {{"MASTER_ADDR", "node1"}}));
  CHECK(holds(refusal, "nothing tells its place among the ranks of its host; LOCAL_RANK does"));
}

TEST_CASE("launch: a batch script is no step") {
  CHECK_FALSE(find_launch(kSlurmJob).has_value());
  // The shells of sbatch and salloc have step numbers that are none.
  CHECK_FALSE(find_launch(with(kSlurmStep, {{"SLURM_STEP_ID", "4294967290"}})).has_value());
  CHECK_FALSE(find_launch(with(kSlurmStep, {{"SLURM_STEP_ID", "4294967291"}})).has_value());
  check_launch(launch_of(without(kSlurmStep, "SLURM_STEP_NUM_TASKS")), {5, 8, 1, 4, "SLURM", "n07:18456", "123456.3"});
  check_launch(launch_of(with(kSlurmStep, kMaster)), {5, 8, 1, 4, "SLURM", "node1:29500", "123456.3"});
}

TEST_CASE("launch: srun with PMI or PMIx is a SLURM step") {
  CHECK(launch_of(with(kSlurmStep, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}})).source == "SLURM");
  CHECK(launch_of(with(kSlurmStep, {{"PMIX_RANK", "5"}, {"PMIX_NAMESPACE", "slurm.pmix.1.0"}})).source == "SLURM");
  // mpirun in a step of one task: another launcher's ranks.
  Environment nested = with(kSlurmStep, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}});
  CHECK(launch_of(with(with(nested, kHydra), kMaster)).source == "MPICH");
}

TEST_CASE("launch: PMIx alone does not tell how many there are") {
  std::string refusal = refusal_of({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "prterun-1"}});
  CHECK(holds(refusal, "rank 3 was started by PMIx"));
  CHECK(holds(refusal, "set TPC_RANK=$PMIX_RANK, TPC_WORLD_SIZE, TPC_LOCAL_RANK and TPC_MEETING=host:port"));
}

TEST_CASE("launch: half a launch is refused with what was found and what is missing") {
  CHECK(refusal_of({{"WORLD_SIZE", "4"}}) ==
        "the environment tells half of a launch by RANK and WORLD_SIZE: found WORLD_SIZE=4, missing RANK; set all or "
        "none");
  CHECK(holds(refusal_of({{"LOCAL_RANK", "0"}}), "found LOCAL_RANK=0, missing RANK, WORLD_SIZE"));
  CHECK(holds(refusal_of(without(kOwn, "TPC_WORLD_SIZE")), "found TPC_RANK=2, missing TPC_WORLD_SIZE"));
  CHECK(holds(refusal_of(without(kOpenMpi, "OMPI_COMM_WORLD_RANK")), "missing OMPI_COMM_WORLD_RANK"));
  CHECK(holds(refusal_of(without(kHydra, "PMI_SIZE")),
              "found PMI_RANK=5, MPI_LOCALRANKID=1, MPI_LOCALNRANKS=4, "
              "missing PMI_SIZE"));
  CHECK(holds(refusal_of(without(kMvapich, "MV2_COMM_WORLD_SIZE")), "missing MV2_COMM_WORLD_SIZE"));
  CHECK(holds(refusal_of(without(kSlurmStep, "SLURM_LOCALID")), "missing SLURM_LOCALID"));
  CHECK(holds(refusal_of(without(kTorchrun, "MASTER_PORT")), "found MASTER_ADDR, missing MASTER_PORT"));
  CHECK(holds(refusal_of({{"TPC_MEETING", "node1:4000"}}), "nothing tells which rank this process is"));
  LaunchFlags flags;
  flags.rank = 1;
  CHECK(refusal_of({}, flags) == "--rank and --world-size go together; --world-size is missing");
}

TEST_CASE("launch: who meets nowhere is told how to say where") {
  CHECK(holds(refusal_of(kOpenMpi), "rank 5 of 8 was started by Open MPI, which does not tell where the ranks meet"));
  CHECK(holds(refusal_of(kHydra), "TPC_MEETING=host:port says where"));
  CHECK(holds(refusal_of(without(kSlurmStep, "SLURM_STEP_NODELIST")), "SLURM_STEP_NODELIST= with SLURM_JOB_ID=123456"));
  CHECK(holds(refusal_of(with(kSlurmStep, {{"SLURM_STEP_NODELIST", "n[07-"}})), "SLURM_STEP_NODELIST=n[07-"));
  // One rank meets nobody.
  Environment alone = {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}};
  check_launch(launch_of(alone), {0, 1, 0, 1, "Open MPI", "", ""});
}

TEST_CASE("launch: what contradicts itself is refused") {
  CHECK(holds(refusal_of(with(kTorchrun, {{"RANK", "8"}})), "contradicts itself on the launch by RANK and WORLD_SIZE"));
  CHECK(holds(refusal_of(with(kTorchrun, {{"LOCAL_RANK", "4"}})), "LOCAL_RANK=4, LOCAL_WORLD_SIZE=4"));
  CHECK(holds(refusal_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})), "contradicts itself"));
  CHECK(holds(refusal_of(with(kSlurmStep, {{"SLURM_LOCALID", "4"}})), "SLURM_STEP_TASKS_PER_NODE=4(x2)"));
  CHECK(refusal_of(with(kTorchrun, {{"RANK", "two"}})) ==
        "environment variable RANK: \"two\" is not a whole number from 0 to 65536");
  CHECK(holds(refusal_of(with(kTorchrun, {{"WORLD_SIZE", "0"}})), "WORLD_SIZE: \"0\" is not"));
  CHECK(holds(refusal_of(with(kOwn, {{"TPC_MEETING", "::1:4000"}})), "TPC_MEETING: \"::1:4000\" is not host:port"));
  CHECK(holds(refusal_of(with(kOwn, {{"TPC_RUN_ID", std::string(1001, 'x')}})), "has 1001 characters"));
}

TEST_CASE("launch: one process with two ranks in equal worlds is a mistake, nested launchers are none") {
  // mpirun -x RANK=0 -x WORLD_SIZE=8 gives all ranks the same.
  Environment by_hand = with(kMaster, {{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "0"}});
  CHECK(refusal_of(with(kOpenMpi, by_hand)) ==
        "this process is rank 0 of 8 by RANK and WORLD_SIZE, but rank 5 by Open MPI: unset the variables of one of "
        "them");
  CHECK(launch_of(with(kOpenMpi, with(by_hand, {{"RANK", "5"}}))).rank == 5);
  CHECK(launch_of(with(kOpenMpi, with(by_hand, {{"WORLD_SIZE", "4"}}))).rank == 0);
  CHECK(holds(refusal_of(with(with(kOpenMpi, kMaster), {{"PMIX_RANK", "4"}})),
              "rank 5 of 8 by Open MPI, but PMIX_RANK=4"));
  // torchrun's agents number hosts as they like; srun started them.
  CHECK(launch_of(with(with(kSlurmStep, {{"SLURM_PROCID", "2"}}), kTorchrun)).rank == 5);
}

TEST_CASE("launch: lists of hosts and tasks") {
  CHECK(expand_host_list("a[1,3-5],b") == Strings{"a1", "a3", "a4", "a5", "b"});
  CHECK(expand_host_list("node") == Strings{"node"});
  CHECK(expand_host_list("n[08-10]") == Strings{"n08", "n09", "n10"});
  CHECK(expand_host_list("r[1-2]n[1,3]-ib,x.y") == Strings{"r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib", "x.y"});
  for (const char* bad : {"", "a,", ",a", "a[", "a[1", "a[]", "a[2-1]", "a[1-]", "a[-1]", "a]", "a[1]]", "a[x]", "a b",
                          "a[1-99999999]", "a[1-999]b[1-999]", "a[1-2-3]", "a[[1]]", "a[18446744073709551616]"}) {
    CAPTURE(bad);
    CHECK_FALSE(expand_host_list(bad).has_value());
  }
  CHECK(expand_task_counts("4(x2),3") == std::vector<int64_t>{4, 4, 3});
  for (const char* bad : {"", "x", "0", "4(x", "4(x)", "4(x2", "4(x2)3", "4(x99999999)", "-1"}) {
    CAPTURE(bad);
    CHECK_FALSE(expand_task_counts(bad).has_value());
  }
}

TEST_CASE("launch: meeting points and their texts") {
  for (const char* text : {"node1:29500", "10.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:7"}) {
    std::optional<MeetingPoint> point = parse_meeting_point(text);
    REQUIRE(point.has_value());
    CHECK(to_string(*point) == text);
  }
  for (const char* bad : {"", ":1", "a", "a:", "a:0", "a:65536", "a:x", "::1:5", "[::1]", "[]:1", "[a]:1", "a b:1",
                          "http://a:1", "a:-1", "a: 1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_meeting_point(bad).has_value());
  }
  CHECK(is_this_machine({"localhost", 1}));
  CHECK(is_this_machine({"127.0.1.1", 1}));
  CHECK(is_this_machine({"::1", 1}));
  CHECK_FALSE(is_this_machine({"127.example.org", 1}));
}

}  // namespace
}  // namespace tpc
