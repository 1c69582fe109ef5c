/// Work that a host has issued and that a device will run.
#pragma once

#include <functional>
#include <string>

namespace fake_cuda {

enum class Progress {
  kDone,
  kMoved,    ///< not done, but further than before
  kBlocked,  ///< waits for other work of this process
  kRemote,   ///< waits for other ranks
  kFailed,   ///< never goes on: what() says why
};

/// One operation on its way.
struct Work {
  std::string name;
  /// Goes as far as it can without waiting. Called by one thread at a time, until it is done.
  std::function<Progress()> advance;
  /// What it waits for, in a message; may be empty.
  std::function<std::string()> what;
};

/// Makes the work anew: at its issue, or whenever the graph that captured it is launched.
using MakeWork = std::function<Work()>;

/// Work that is done in one go.
inline MakeWork simple_work(std::string name, std::function<void()> run) {
  return [name = std::move(name), run = std::move(run)] {
    return Work{name,
                [run] {
                  run();
                  return Progress::kDone;
                },
                nullptr};
  };
}

}  // namespace fake_cuda
