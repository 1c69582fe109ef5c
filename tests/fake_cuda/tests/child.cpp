#include "tests/fake_cuda/tests/child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda::testing {
namespace {

std::vector<std::string> set_variables(const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const std::string& setting : settings) {
    size_t equals = setting.find('=');
    names.push_back(setting.substr(0, equals));
    setenv(names.back().c_str(), setting.substr(equals + 1).c_str(), 1);
  }
  return names;
}

}  // namespace

Child::Child(const std::vector<std::string>& settings, const std::function<void()>& run) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  process_ = fork();
  if (process_ == 0) {
    signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    set_variables(settings);
    reset();
    run();
    // Without what the parent has registered for the end of the process.
    if (std::getenv("FAKE_CUDA_LEAKS") == nullptr) check_leaks();
    _exit(0);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

Child::~Child() {
  if (process_ == 0) return;
  kill();
  wait();
}

void Child::kill() { ::kill(process_, SIGKILL); }

Ended Child::wait() {
  Ended ended;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(pipe_, buffer, sizeof buffer)) > 0) ended.said.append(buffer, static_cast<size_t>(got));
  close(pipe_);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = 0;
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ended;
}

Ended in_child(const std::vector<std::string>& settings, const std::function<void()>& run) {
  return Child(settings, run).wait();
}

Environment::Environment(const std::vector<std::string>& settings) : names_(set_variables(settings)) { reset(); }

Environment::~Environment() {
  for (const std::string& name : names_) unsetenv(name.c_str());
  reset();
}

}  // namespace fake_cuda::testing
