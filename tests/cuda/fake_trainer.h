/// Training on the cuda module with the fake device behind it; every rank is a thread with a device of its own.
#pragma once

#include <functional>

#include "runtime/device_module.h"
#include "runtime/trainer.h"

namespace tpc::testing {

/// The module as tprun loads it.
DeviceModule& fake_module();

/// Of all ranks of a world of `world_size`; `change` may alter what the module is asked for.
Trainer::MakeDevice fake_devices(int64_t world_size, const std::function<void(DeviceSettings&)>& change = {});

}  // namespace tpc::testing
