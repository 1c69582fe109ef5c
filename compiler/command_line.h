/// The command line of tpc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "compiler/sharding/device_mesh.h"
#include "passes/pass.h"

namespace tpc {

/// The command line is wrong (exit code 2).
class UsageError : public std::runtime_error {
 public:
  /// `command` is what --help is asked of: "tpc", "tpc shard".
  UsageError(std::string command, const std::string& message)
      : std::runtime_error(message), command_(std::move(command)) {}
  const std::string& command() const { return command_; }

 private:
  std::string command_;
};

struct ShardCommand {
  std::string model_path;
  DeviceMesh mesh;
  std::map<std::string, int64_t> dims;
  std::optional<Precision> precision;
  std::string strategy = "megatron";
  bool sequence_parallel = false;
  int zero_stage = 0;
  SearchOptions search;
  /// Bytes that a rank's arena may have; 0: no limit.
  int64_t memory_bytes = 0;
  std::string cluster_path;  ///< "" none
  bool by_time = false;      ///< --objective time
  bool compares = false;
  bool shows_front = false;
  std::string output_path;  ///< "" none, "-" standard output
  std::optional<int64_t> rank;
  std::vector<std::string> print_after;
  std::string stop_after;
  std::string dump_dir;
};

struct ReportCommand {
  enum class Form { kText, kJson, kCsv };
  std::string plan_path;
  Form form = Form::kText;
  bool all_collectives = false;
};

struct CallsCommand {
  std::string plan_path;
  int64_t rank = 0;
  std::optional<int64_t> step;  ///< of the plan; none: all
  std::string layer;            ///< or a block of layers; "": all
  bool all = false;             ///< blocks that repeat are told each
  bool json = false;
};

struct DiffCommand {
  std::string before_path;
  std::string after_path;
  bool json = false;
};

struct ExplainCommand {
  std::string plan_path;
  std::string node;  ///< a layer, a tensor or the number of a step
  bool json = false;
};

struct VerifyCommand {
  std::string plan_path;
  std::string model_path;  ///< "": the model in the plan
  bool is_numeric = false;
};

/// Text that is wanted instead of work: help, version, a generated page of docs/.
struct TextCommand {
  std::string text;
};

using Command =
    std::variant<ShardCommand, ReportCommand, CallsCommand, DiffCommand, ExplainCommand, VerifyCommand, TextCommand>;

/// Throws UsageError: an unknown flag names the nearest, a value out of range the values allowed.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace tpc
