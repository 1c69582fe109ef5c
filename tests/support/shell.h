/// Programs run as a user runs them.
#pragma once

#include <filesystem>
#include <string>

namespace tpc::testing {

struct Ran {
  std::string output;  ///< of both streams; the scratch folder is shown as $TMP
  int exit_code = 0;   ///< 128: ended by a signal
};

/// Runs a command line in a shell in `folder`, the built programs first on PATH, TMP set to `scratch`.
Ran run_in_shell(const std::string& command, const std::filesystem::path& folder, const std::filesystem::path& scratch);

/// An empty folder that is removed with everything in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_whole(const std::filesystem::path& path);

/// Expected outputs are rewritten (TPC_UPDATE_GOLDEN=1, never with CI=true).
bool updates_golden();

}  // namespace tpc::testing
