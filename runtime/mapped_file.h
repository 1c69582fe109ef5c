/// A file as memory, read by the system as it is used.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tpc {

class MappedFile {
 public:
  /// Throws UserError when `file` is not a regular file that can be read.
  explicit MappedFile(const std::string& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const unsigned char> bytes() const { return bytes_; }

 private:
  std::span<const unsigned char> bytes_;
};

}  // namespace tpc
