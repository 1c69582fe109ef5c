#include "tests/cuda/training_devices.h"

extern "C" tpc::DeviceModule* tpc_device_module(int version);

namespace tpc::testing {

DeviceModule& training_module() { return *tpc_device_module(kDeviceModuleVersion); }

Trainer::MakeDevice training_devices(int64_t world_size, const std::function<void(DeviceSettings&)>& change) {
  DeviceSettings settings;
  settings.world_size = world_size;
  settings.timeout = std::chrono::milliseconds(20'000);
  if (world_size > 1) settings.meeting = training_module().make_meeting();
  if (change) change(settings);
  return [settings](int64_t rank, ThreadWorld& world) {
    DeviceSettings own = settings;
    own.rank = rank;
    own.device = static_cast<int>(rank);
    own.check_run = [&world] {
      if (world.has_failed()) throw RunEnded();
    };
    return training_module().open(own);
  };
}

}  // namespace tpc::testing
