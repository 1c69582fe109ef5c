#include "compiler/core/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"

namespace tpc {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw UserError({path, ""}, fmt::format("cannot be written: {}", reason));
}

}  // namespace

void require_output_path(const std::string& path, const std::vector<std::string>& inputs) {
  std::error_code error;
  fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error)) {
    refuse(path, fmt::format("there is no folder \"{}\"", folder.string()));
  }
  if (fs::is_directory(path, error)) refuse(path, "it is a folder");
  for (const std::string& input : inputs) {
    if (fs::equivalent(path, input, error)) refuse(path, "it is an input of this command; name another file");
  }
}

void write_output_file(const std::string& path, std::string_view text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) refuse(path, std::strerror(errno));
  bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  int reason = errno;
  is_written = std::fclose(file) == 0 && is_written;
  if (!is_written) throw DeviceError(fmt::format("cannot write \"{}\": {}", path, std::strerror(reason)));
}

void prepare_standard_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free number is the closed stream's.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void write_standard_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  int reason = errno;
  std::clearerr(stdout);
  if (reason != EPIPE) throw DeviceError(fmt::format("cannot write to standard output: {}", std::strerror(reason)));
}

}  // namespace tpc
