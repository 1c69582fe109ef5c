// Ranks as processes: what the starter passes on, how it ends, and that nobody stays behind.
#include "runtime/launch/process_starter.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "runtime/launch/child_process.h"
#include "runtime/launch/line_relay.h"
#include "tests/support/shell.h"
#include "tests/unit/runtime/launch/store_team.h"

namespace tpc {
namespace {

using namespace testing;

std::string launched_rank() { return std::string(TPC_BINARY_DIR) + "/tests/tpc_launched_rank"; }

Ran run_started(const std::string& arguments) {
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  return run_in_shell(launched_rank() + " " + arguments, folder, folder);
}

/// A program of this test's own, whose standard error is read line by line.
class Started {
 public:
  Started(std::vector<std::string> arguments, const Environment& variables) {
    Environment environment = process_environment();
    for (const auto& [name, value] : variables) environment[name] = value;
    arguments.insert(arguments.begin(), launched_rank());
    child_ = start_child({launched_rank(), arguments, environment, false, -1});
  }
  pid_t id() const { return child_.id; }

  /// The next line, or "" when none comes any more.
  std::string next_line() {
    std::string line, byte;
    while (read_byte(byte)) {
      if (byte == "\n") return line;
      line += byte;
    }
    return line;
  }
  std::string rest() {
    std::string all, byte;
    while (read_byte(byte)) all += byte;
    return all;
  }
  /// Exit code, or minus the signal that killed it.
  int wait() const {
    int status = 0;
    waitpid(child_.id, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  bool read_byte(std::string& byte) const {
    byte.resize(1);
    while (true) {
      ssize_t count = read(child_.errors.number(), byte.data(), 1);
      if (count >= 0) return count == 1;
      if (errno != EAGAIN && errno != EINTR) return false;
      std::this_thread::sleep_for(2ms);
    }
  }
  ChildProcess child_;
};

/// Not one that has ended and that nobody has waited for yet.
bool is_running(pid_t id) {
  std::ifstream file(fmt::format("/proc/{}/stat", id));
  std::string stat;
  std::getline(file, stat);
  size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end, 3) != ") Z";
}

bool are_gone(const std::vector<pid_t>& ids) {
  // Left alone they would sleep for longer.
  Deadline deadline = Clock::now() + 20'000ms;
  while (std::any_of(ids.begin(), ids.end(), is_running)) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

/// The ranks that "sleep" has started, when all of them run.
std::vector<pid_t> sleeping_ranks(Started& starter, size_t count) {
  std::vector<pid_t> ids;
  std::smatch match;
  while (ids.size() < count) {
    std::string line = starter.next_line();
    REQUIRE(std::regex_search(line, match, std::regex("process ([0-9]+)")));
    ids.push_back(static_cast<pid_t>(std::stoll(match[1].str())));
  }
  return ids;
}

std::string sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

TEST_CASE("starter: ranks meet, rank 0's output passes, the others' does not") {
  Ran ran = run_started("--ranks 4 meet");
  CHECK(ran.output == "rank 0 of 4: 0 1 2 3 \n");
  CHECK(ran.exit_code == 0);
  CHECK(run_started("--ranks 1 meet").output == "rank 0 of 1: 0 \n");
}

TEST_CASE("starter: what ranks write to standard error has the rank in front, what all write comes once") {
  Ran ran = run_started("--ranks 3 say");
  CAPTURE(ran.output);
  std::string lines = sorted_lines(ran.output);
  bool is_once = false;
  for (const char* by : {"", "[rank 1] ", "[rank 2] "}) {
    std::string all_say = fmt::format("{}all ranks say this", by);
    std::string expected =
        fmt::format("{}\n{}\n{}\n{}\n{}\n", all_say, "here is rank 0 of the run", "[rank 1] here is rank 1 of the run",
                    "[rank 2] here is rank 2 of the run", "rank 0 of 3: 0 1 2 ");
    is_once = is_once || lines == sorted_lines(expected);
  }
  CHECK(is_once);
  CHECK(ran.exit_code == 0);
}

TEST_CASE("starter: one message, whatever rank fails and however it does") {
  auto check = [](const std::string& arguments, int exit_code, const std::string& message) {
    CAPTURE(arguments);
    auto start = Clock::now();
    Ran ran = run_started(arguments);
    CHECK(ran.output == message + "\n");
    CHECK(ran.exit_code == exit_code);
    CHECK(Clock::now() - start < 30'000ms);
  };
  check("--ranks 3 fail 0", 1, "error: it failed");
  check("--ranks 3 fail 2", 1, "[rank 2] error: it failed");
  check("--ranks 3 die 0", 69, "error: rank 0 was killed by signal 9 (Killed)");
  check("--ranks 3 die 2", 69, "error: rank 2 was killed by signal 9 (Killed)");
  check("--ranks 3 stop 1", 69, "error: rank 1 has not been heard of for 0.5 s");
  check("--ranks 3 quit 1", 3, "error: rank 1 ended with code 3");
  check("--ranks 3 stay 1", 1, "error: it failed");
}

TEST_CASE("starter: a signal is passed on, and nobody stays behind") {
  for (int number : {SIGINT, SIGTERM}) {
    Started starter({"--ranks", "3", "sleep"}, {});
    std::vector<pid_t> ranks = sleeping_ranks(starter, 3);
    kill(starter.id(), number);
    CHECK(starter.wait() == 128 + number);
    CHECK(are_gone(ranks));
    CHECK(starter.rest().empty());
  }
}

TEST_CASE("starter: no rank outlives a starter that is killed") {
  Started starter({"--ranks", "3", "sleep"}, {});
  std::vector<pid_t> ranks = sleeping_ranks(starter, 3);
  kill(starter.id(), SIGKILL);
  CHECK(starter.wait() == -SIGKILL);
  CHECK(are_gone(ranks));
}

TEST_CASE("starter: processes without a starter end within seconds of a death, and one tells") {
  for (int64_t dying : {0, 2}) {
    int port = 0;
    listen_on_this_machine(port).close();
    auto start = Clock::now();
    std::vector<Started> ranks;
    for (int64_t rank = 0; rank < 4; ++rank) {
      Launch launch;
      launch.rank = launch.local_rank = rank;
      launch.world_size = launch.local_size = 4;
      launch.source = "TPC_RANK";
      launch.meeting = MeetingPoint{"127.0.0.1", port};
      ranks.emplace_back(std::vector<std::string>{"die", fmt::format("{}", dying)}, variables_of(launch));
    }
    std::string told;
    for (int64_t rank = 0; rank < 4; ++rank) {
      told += ranks[static_cast<size_t>(rank)].rest();
      CHECK(ranks[static_cast<size_t>(rank)].wait() == (rank == dying ? -SIGKILL : 69));
    }
    CHECK(told == (dying == 0 ? "error: rank 0 has died (its connection broke)\n"
                              : "error: rank 2 has died (its connection to rank 0 broke)\n"));
    CHECK(Clock::now() - start < 10'000ms);
  }
}

TEST_CASE("starter: what cannot be started is told") {
  StarterOptions options;
  options.ranks = 2;
  options.program = "/no/such/program";
  options.arguments = {"program"};
  options.tell = [](std::string_view) {};
  CHECK(fate_of([&] { run_processes(options); }) ==
        "the system starts 0 of the 2 processes of the ranks: /no/such/program: No such file or directory");
}

TEST_CASE("starter: the cause decides the exit code") {
  auto check = [](const std::vector<RankEnding>& endings, int interrupted, int exit_code, const std::string& message) {
    StarterOutcome outcome = outcome_of(endings, interrupted);
    CHECK(outcome.exit_code == exit_code);
    CHECK(outcome.message == message);
  };
  RankEnding good{0, 0, 0, false, true};
  RankEnding heard{1, kHeardOfFailure, 0, false, false};
  RankEnding silent{1, 69, 0, false, false};
  RankEnding failed{2, 1, 0, false, true};
  RankEnding also_failed{3, 70, 0, false, true};
  RankEnding dead{4, 0, SIGSEGV, false, false};
  RankEnding killed{5, 0, SIGKILL, true, false};
  check({}, 0, 0, "");
  check({good, good}, 0, 0, "");
  check({heard, failed, also_failed}, 0, 1, "");
  check({silent, also_failed, failed}, 0, 70, "");
  check({heard, dead, failed}, 0, 69, "rank 4 was killed by signal 11 (Segmentation fault)");
  check({failed, dead}, 0, 1, "");
  check({killed, failed}, 0, 1, "");
  check({heard, killed}, 0, 69, "rank 5 did not end with the others and was killed");
  check({heard, heard}, 0, 69, "the run was ended by a rank that did not say why; rank 1 heard of it first");
  check({dead, heard}, SIGINT, 130, "");
  check({good, good}, SIGTERM, 0, "");
  check({{3, 5, 0, false, false}}, 0, 5, "rank 3 ended with code 5");
}

TEST_CASE("starter: lines are passed whole, and once") {
  std::string passed;
  LineRelay relay([&](std::string_view line) { passed += line; });
  relay.add(1, "one");
  relay.add(0, "from rank 0\nsame\n");
  relay.add(1, " line\nsame\nand again\nand again\n");
  relay.add(2, "and again\nbegun");
  CHECK(passed == "from rank 0\nsame\n[rank 1] one line\n[rank 1] and again\n[rank 1] and again\n");
  relay.end(2);
  relay.end(2);
  CHECK(passed.ends_with("[rank 2] begun\n"));
  CHECK(relay.has_spoken(2));
  CHECK_FALSE(relay.has_spoken(3));
}

}  // namespace
}  // namespace tpc
