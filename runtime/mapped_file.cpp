#include "runtime/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/core/diagnostic.h"

namespace tpc {
namespace {

[[noreturn]] void throw_unreadable(const std::string& file, const std::string& reason) {
  throw UserError({file, ""}, fmt::format("cannot read \"{}\": {}", file, reason));
}

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
};

}  // namespace

MappedFile::MappedFile(const std::string& file) {
  // Without O_NONBLOCK opening a pipe that nobody writes to would wait for ever.
  Descriptor descriptor{open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.value < 0) throw_unreadable(file, std::strerror(errno));
  struct stat status {};
  if (fstat(descriptor.value, &status) != 0) throw_unreadable(file, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw_unreadable(file, "it is not a regular file");
  auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (memory == MAP_FAILED) throw_unreadable(file, std::strerror(errno));
  bytes_ = {static_cast<const unsigned char*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<unsigned char*>(bytes_.data()), bytes_.size());
}

}  // namespace tpc
