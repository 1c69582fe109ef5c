/// The devices that training tests run on: the fake one here, GPUs in tests/device.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/device_module.h"
#include "runtime/trainer.h"

namespace tpc::testing {

/// Whether a world of so many ranks has its devices; where not, says that the test skips it, and why. What the program
/// links decides.
bool has_devices(int64_t world_size);

/// The module as tprun loads it.
DeviceModule& training_module();

/// Of all ranks of a world of `world_size`, each a thread with a device of its own; `change` may alter what the module
/// is asked for.
Trainer::MakeDevice training_devices(int64_t world_size, const std::function<void(DeviceSettings&)>& change = {});

}  // namespace tpc::testing
