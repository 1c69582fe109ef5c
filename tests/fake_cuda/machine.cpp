#include "tests/fake_cuda/machine.h"

#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/kernels.h"
#include "tests/fake_cuda/leaks.h"
#include "tests/fake_cuda/memory_faults.h"

namespace fake_cuda {
namespace {

std::unique_ptr<Machine>& holder() {
  // Never destroyed: work may be looked at until the very end of the process.
  static auto* machine = new std::unique_ptr<Machine>(std::make_unique<Machine>(read_settings()));
  return *machine;
}

thread_local int device_of_thread = 0;

}  // namespace

Device::Device(int index_, int physical_, const Settings& settings)
    : index(index_),
      physical(physical_),
      rank(index_),
      memory(index_, settings.memory),
      random(settings.seed * 977 + static_cast<uint64_t>(physical_)) {}

Machine::Machine(Settings settings_) : settings(std::move(settings_)), devices(settings.devices.size()) {
  report_memory_faults();
  watch_end_of_process();
  queue_kernels();
}

Machine::~Machine() = default;

Device& Machine::device(int index) {
  std::unique_ptr<Device>& device = devices[static_cast<size_t>(index)];
  if (!device) {
    device = std::make_unique<Device>(index, settings.devices[static_cast<size_t>(index)], settings);
  }
  return *device;
}

Device* Machine::device_of(const void* address) {
  for (const std::unique_ptr<Device>& device : devices) {
    if (device && device->memory.contains(address)) return device.get();
  }
  return nullptr;
}

Machine& machine() { return *holder(); }

int current_device() { return device_of_thread; }
void set_current_device(int index) { device_of_thread = index; }

void reset() {
  holder() = nullptr;
  holder() = std::make_unique<Machine>(read_settings());
  set_current_device(0);
}

}  // namespace fake_cuda
