#include "tests/cuda/training_devices.h"
#include "tests/device/test_gpu.h"

namespace tpc::testing {

bool has_devices(int64_t world_size) { return has_gpus(static_cast<int>(world_size)); }

}  // namespace tpc::testing
