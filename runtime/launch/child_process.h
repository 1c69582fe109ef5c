/// One process of a rank, as its starter sees it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/descriptor.h"
#include "runtime/launch/launch_environment.h"

namespace tpc {

struct ChildPlan {
  std::string program;
  /// The program's name first.
  std::vector<std::string> arguments;
  /// All that the child gets.
  Environment environment;
  /// Its standard output is the starter's, and its standard input; else both are /dev/null.
  bool shares_output = false;
  /// A descriptor that it keeps under its number, or -1.
  int kept = -1;
};

/// Runs; does not outlive the thread that started it.
struct ChildProcess {
  pid_t id = -1;
  /// Its standard error, to be read without waiting.
  Descriptor errors;
};

/// Throws DeviceError when the system does not start it.
ChildProcess start_child(const ChildPlan& plan);

/// SIGINT, SIGTERM and SIGCHLD of this process as bytes to be read, for the life of this object, of which there is one
/// at a time. One of the first two that is ignored stays so.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int descriptor() const;
  /// The signals since the last call.
  std::vector<int> take() const;

 private:
  struct Previous;
  std::unique_ptr<Previous> previous_;
};

}  // namespace tpc
