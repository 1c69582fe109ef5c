#include "tests/cuda/training_devices.h"

namespace tpc::testing {

bool has_devices(int64_t /*world_size*/) { return true; }

}  // namespace tpc::testing
