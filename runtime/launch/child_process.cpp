#include "runtime/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGCHLD};
constexpr int kNotStarted = 127;

// Where the handler writes; one starter at a time.
std::atomic<int> signal_target = -1;

void note_signal(int signal) {
  int saved = errno;
  auto byte = static_cast<char>(signal);
  [[maybe_unused]] ssize_t count = write(signal_target.load(), &byte, 1);
  errno = saved;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Between fork and exec: only what a signal handler may do. Returns when the program could not be started.
void become(const ChildPlan& plan, char** arguments, char** environment, int null, int errors, pid_t starter,
            const sigset_t& mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The starter may have gone before that.
  if (getppid() != starter) _exit(kNotStarted);
  if (!plan.shares_output && (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)) return;
  if (dup2(errors, STDERR_FILENO) < 0) return;
  if (plan.kept >= 0 && fcntl(plan.kept, F_SETFD, 0) != 0) return;
  // No handler of the starter's runs here once signals are let through.
  for (int number : kSignals) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler == note_signal) signal(number, SIG_DFL);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(plan.program.c_str(), arguments, environment);
}

}  // namespace

ChildProcess start_child(const ChildPlan& plan) {
  std::vector<std::string> argument_texts = plan.arguments;
  std::vector<std::string> variable_texts;
  for (const auto& [name, value] : plan.environment) variable_texts.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> arguments = pointers_to(argument_texts);
  std::vector<char*> environment = pointers_to(variable_texts);
  Pipe errors = make_pipe();
  // The child writes as to any standard error: it waits when nobody reads.
  fcntl(errors.write_end.number(), F_SETFL, 0);
  Pipe report = make_pipe();
  Descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));

  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  pid_t starter = getpid();
  pid_t id = fork();
  if (id == 0) {
    become(plan, arguments.data(), environment.data(), null.number(), errors.write_end.number(), starter, mask);
    int error = errno;
    [[maybe_unused]] ssize_t count = write(report.write_end.number(), &error, sizeof error);
    _exit(kNotStarted);
  }
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (id < 0) throw DeviceError(std::strerror(error));

  // Closed by exec, or holds why there was none.
  report.write_end.close();
  pollfd entry{report.read_end.number(), POLLIN, 0};
  while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
  if (read(report.read_end.number(), &error, sizeof error) == sizeof error) {
    waitpid(id, nullptr, 0);
    throw DeviceError(fmt::format("{}: {}", plan.program, std::strerror(error)));
  }
  return {id, std::move(errors.read_end)};
}

struct SignalPipe::Previous {
  Pipe pipe = make_pipe();
  std::array<struct sigaction, kSignals.size()> actions{};
};

SignalPipe::SignalPipe() : previous_(std::make_unique<Previous>()) {
  TPC_CHECK(signal_target == -1, "two starters of processes in one process");
  signal_target = previous_->pipe.write_end.number();
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(kSignals[i], nullptr, &previous_->actions[i]);
    bool stays_ignored = kSignals[i] != SIGCHLD && previous_->actions[i].sa_handler == SIG_IGN;
    if (!stays_ignored) sigaction(kSignals[i], &action, nullptr);
  }
}

SignalPipe::~SignalPipe() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_->actions[i], nullptr);
  signal_target = -1;
}

int SignalPipe::descriptor() const { return previous_->pipe.read_end.number(); }

std::vector<int> SignalPipe::take() const {
  std::array<char, 256> bytes;
  std::vector<int> signals;
  while (true) {
    ssize_t count = read(descriptor(), bytes.data(), bytes.size());
    if (count <= 0) return signals;
    for (ssize_t i = 0; i < count; ++i) signals.push_back(bytes[static_cast<size_t>(i)]);
  }
}

}  // namespace tpc
