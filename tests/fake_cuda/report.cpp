#include "tests/fake_cuda/report.h"

#include <unistd.h>

#include <cstdlib>

namespace fake_cuda {

void say(const std::string& sentence) {
  std::string line = "fake CUDA: " + sentence + "\n";
  // One write, so that lines of several threads and processes stay whole; nothing can be done when it fails.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void die_with(const std::string& sentence) {
  say(sentence);
  std::abort();
}

}  // namespace fake_cuda
