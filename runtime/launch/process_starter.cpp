#include "runtime/launch/process_starter.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>

#include "compiler/core/check.h"
#include "runtime/launch/child_process.h"
#include "runtime/launch/line_relay.h"
#include "runtime/launch/tcp.h"

namespace tpc {
namespace {

constexpr int kTick = 500;  // milliseconds

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

class Starter {
 public:
  explicit Starter(const StarterOptions& options) : options_(options), relay_(options.tell) {}
  ~Starter() {
    // Left by an exception: none may stay.
    kill_all(SIGKILL);
    for (const Child& child : children_) {
      if (child.is_running) waitpid(child.process.id, nullptr, 0);
    }
  }
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  StarterOutcome run() {
    start_all();
    while (num_running_ > 0) turn();
    return outcome_of(endings_, interrupted_);
  }

 private:
  struct Child {
    ChildProcess process;
    bool is_running = true;
    bool was_killed = false;
  };

  void start_all();
  void turn();
  void heed_signals();
  void relay(int64_t rank);
  void reap();
  void kill_all(int signal);

  const StarterOptions& options_;
  LineRelay relay_;
  SignalPipe signals_;
  std::vector<Child> children_;  // by rank
  int64_t num_running_ = 0;
  std::vector<RankEnding> endings_;
  int interrupted_ = 0;
  std::optional<Deadline> killing_at_;
};

void Starter::start_all() {
  Launch launch;
  launch.world_size = launch.local_size = options_.ranks;
  launch.source = "tprun --ranks";
  launch.run_id = random_id();
  launch.meeting = MeetingPoint{"127.0.0.1", 0};
  Descriptor listener = listen_on_this_machine(launch.meeting->port);
  launch.listener = listener.number();
  // Rank 0 gets all variables that there are; none may come from another launch.
  Environment inherited = process_environment();
  for (const auto& [name, value] : variables_of(launch)) inherited.erase(name);
  for (int64_t rank = 0; rank < options_.ranks; ++rank) {
    launch.rank = launch.local_rank = rank;
    launch.listener = rank == 0 ? listener.number() : -1;
    Environment environment = variables_of(launch);
    environment.insert(inherited.begin(), inherited.end());
    try {
      children_.push_back(
          {start_child({options_.program, options_.arguments, environment, rank == 0, launch.listener})});
    } catch (const DeviceError& error) {
      throw DeviceError(
          fmt::format("the system starts {} of the {} processes of the ranks: {}", rank, options_.ranks, error.what()));
    }
    ++num_running_;
    // Rank 0 alone listens: when it ends, who calls it is told.
    listener.close();
  }
}

void Starter::turn() {
  std::vector<pollfd> entries = {{signals_.descriptor(), POLLIN, 0}};
  for (const Child& child : children_) {
    if (child.process.errors.is_open()) entries.push_back({child.process.errors.number(), POLLIN, 0});
  }
  poll(entries.data(), entries.size(), kTick);
  heed_signals();
  for (size_t rank = 0; rank < children_.size(); ++rank) relay(static_cast<int64_t>(rank));
  reap();
  if (killing_at_ && Clock::now() >= *killing_at_) {
    for (Child& child : children_) child.was_killed = child.was_killed || child.is_running;
    kill_all(SIGKILL);
  }
}

void Starter::heed_signals() {
  for (int signal : signals_.take()) {
    if (signal == SIGCHLD) continue;
    Deadline now = Clock::now();
    // Who asks twice does not want to wait.
    killing_at_ = interrupted_ != 0 ? now : now + options_.grace;
    if (interrupted_ == 0) interrupted_ = signal;
    kill_all(signal);
  }
}

void Starter::relay(int64_t rank) {
  Descriptor& errors = children_[static_cast<size_t>(rank)].process.errors;
  std::array<char, 4096> buffer;
  while (errors.is_open()) {
    ssize_t count = read(errors.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) {
      relay_.end(rank);
      errors.close();
      return;
    }
    relay_.add(rank, {buffer.data(), static_cast<size_t>(count)});
  }
}

void Starter::reap() {
  std::vector<RankEnding> ended;
  for (size_t i = 0; i < children_.size(); ++i) {
    Child& child = children_[i];
    int status = 0;
    if (!child.is_running || waitpid(child.process.id, &status, WNOHANG) != child.process.id) continue;
    child.is_running = false;
    --num_running_;
    auto rank = static_cast<int64_t>(i);
    // What it wrote last.
    relay(rank);
    relay_.end(rank);
    RankEnding ending{rank, 0, 0, child.was_killed, relay_.has_spoken(rank)};
    if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
    if (status != 0 && !killing_at_) killing_at_ = Clock::now() + options_.grace;
    ended.push_back(ending);
  }
  // Of those that are seen at once, who was killed did not react to another.
  std::stable_partition(ended.begin(), ended.end(), [](const RankEnding& ending) { return ending.signal != 0; });
  endings_.insert(endings_.end(), ended.begin(), ended.end());
}

void Starter::kill_all(int signal) {
  for (const Child& child : children_) {
    if (child.is_running) kill(child.process.id, signal);
  }
}

}  // namespace

StarterOutcome run_processes(const StarterOptions& options) {
  TPC_CHECK(options.ranks >= 1 && !options.arguments.empty(), "{} ranks to start", options.ranks);
  return Starter(options).run();
}

}  // namespace tpc
