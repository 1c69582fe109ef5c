/// The flags of `tpc shard`.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "compiler/command_line.h"

namespace tpc {

/// Flags as they stand on the command line: numbers are text, so that messages can quote them.
class ShardFlags {
 public:
  void add_to(CLI::App& app);
  /// Throws UsageError: what is out of range, unknown (with the nearest), or cannot stand together.
  ShardCommand command() const;

 private:
  void add_search_flags(CLI::App& app);
  DeviceMesh mesh() const;
  std::map<std::string, int64_t> dims() const;
  void read_search(ShardCommand& command) const;
  static void check_together(const ShardCommand& command);

  ShardCommand raw_;
  std::string mesh_;
  std::string tp_;
  std::string batch_;
  std::string seq_;
  std::string precision_;
  std::string rank_;
  std::string zero_;
  std::vector<std::string> no_split_;
  std::string sub_axes_;
  std::string memory_;
  std::string memory_price_;
  std::string objective_ = "bytes";
  std::vector<std::string> dims_;
  bool json_ = false;
};

}  // namespace tpc
