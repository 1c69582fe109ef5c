/// What programs write: files and the standard streams.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// Refuses, before any work is done, an output path that is a folder, lies in no folder, or is one of `inputs` (which
/// it would overwrite): UserError.
void require_output_path(const std::string& path, const std::vector<std::string>& inputs);

/// Replaces the file's content. A path that cannot be opened is a UserError, a write that fails a DeviceError.
void write_output_file(const std::string& path, std::string_view text);

/// Call first in main: a standard stream that the caller closed becomes /dev/null, so that no file that is opened later
/// takes its number, and a reader that goes away is told by write errors rather than by a signal.
void prepare_standard_streams();

/// Writes to standard output and flushes. A reader that went away (`| head`) is no error; anything else that cannot be
/// written is a DeviceError.
void write_standard_output(std::string_view text);

}  // namespace tpc
