/// Memory of a device that peers may write into.
#pragma once

#include "runtime/cuda/device_memory.h"

namespace tpc::cuda {

/// NCCL's, for windows (see NcclOptions).
extern const MemorySource kSymmetricMemory;

}  // namespace tpc::cuda
