/// What a rank runs on.
#pragma once

#include <memory>

#include "runtime/backend.h"
#include "runtime/communicator.h"

namespace tpc {

/// The communicator does not outlive the backend.
struct RankDevice {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> communicator;
};

}  // namespace tpc
