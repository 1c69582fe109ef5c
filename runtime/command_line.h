/// The command line of tprun.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/launch/launch_environment.h"

namespace tpc {

struct RunOptions {
  std::string plan;
  std::string data = "fixed";
  int64_t steps = 50;
  uint64_t seed = 0;
  int threads = 0;
  std::string metrics;
  std::string summary;
  std::string profile;
  int64_t log_every = 10;
  std::string device = "cpu";
  int64_t ranks = 0;  // 0: not said
  LaunchFlags launch;
  bool allow_shared_gpu = false;
  bool no_graph = false;
  bool no_cudnn = false;
  bool tune = false;
  bool tf32 = false;
  bool symmetric_memory = false;
  std::string comm = "threads";
  double timeout = 60;
  bool quiet = false;
  bool no_verify = false;
  int64_t check = 0;  // steps; 0: trains
  bool fp64 = false;
  bool wants_help = false;
  bool wants_version = false;
};

/// A mistake on the command line, as the whole message.
struct UsageError {
  std::string message;
};

/// Throws UsageError. With --help or --version nothing else is looked at.
RunOptions parse_command_line(int argc, char** argv);

/// What --help prints.
std::string command_line_help();

}  // namespace tpc
