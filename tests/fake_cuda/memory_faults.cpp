#include "tests/fake_cuda/memory_faults.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tests/fake_cuda/machine.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

struct sigaction previous_segv;
struct sigaction previous_bus;
thread_local const std::string* running = nullptr;

// What a signal handler may have: it does not allocate.
class FixedText {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    auto result = fmt::format_to_n(text_ + size_, sizeof text_ - size_, format, std::forward<Args>(args)...);
    size_ = std::min(sizeof text_, size_ + result.size);
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  char text_[1024] = {};
  size_t size_ = 0;
};

void add_place(FixedText& text, Device& device, const void* address) {
  const Allocation* allocation = device.memory.find(address);
  if (allocation == nullptr) {
    text.add("an address of device {} where nothing was allocated", device.index);
    return;
  }
  text.add("byte {} of allocation {} of device {} ({} bytes, {}{})",
           static_cast<const std::byte*>(address) - allocation->data, allocation->number, device.index,
           allocation->bytes, std::string_view(allocation->made_by), allocation->live ? "" : ", released");
}

// The process is lost. It takes no lock: at worst, what it reads changes meanwhile.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (Device* device = machine().device_of(info->si_addr)) {
    FixedText text;
    text.add("fake CUDA: ");
    if (running != nullptr) {
      text.add("\"{}\" touched device memory that is not its own to touch: ", std::string_view(*running));
    } else if (device->memory.is_open()) {
      // Blocks of a large grid run on threads of their own.
      text.add("a kernel touched device memory that is not its own to touch: ");
    } else {
      text.add("host code touched device memory: ");
    }
    add_place(text, *device, info->si_addr);
    text.add("\n");
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, text.text().data(), text.text().size());
    std::abort();
  }
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  // The default action, or a handler of the old kind, when the access is made again.
  sigaction(signal, &previous, nullptr);
}

}  // namespace

void report_memory_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  struct sigaction found = {};
  for (auto [signal, previous] : {std::pair{SIGSEGV, &previous_segv}, {SIGBUS, &previous_bus}}) {
    sigaction(signal, nullptr, &found);
    if (found.sa_sigaction == on_fault) continue;
    *previous = found;
    sigaction(signal, &action, nullptr);
  }
}

void set_running_work(const std::string* name) { running = name; }

std::string describe_address(const void* address) {
  Machine& all = machine();
  std::lock_guard lock(all.mutex);
  if (Device* device = all.device_of(address)) {
    FixedText text;
    add_place(text, *device, address);
    return std::string(text.text());
  }
  const auto* byte = static_cast<const std::byte*>(address);
  auto after = all.pinned.upper_bound(byte);
  if (after != all.pinned.begin()) {
    const auto& [begin, pinned] = *std::prev(after);
    if (byte < begin + pinned.bytes) {
      return fmt::format("byte {} of pinned allocation {} ({} bytes)", byte - begin, pinned.number, pinned.bytes);
    }
  }
  return address == nullptr ? "null" : "pageable host memory";
}

void check_device_range(const char* call, const char* what, const void* address, uint64_t bytes, int device) {
  bool right = false;
  {
    Machine& all = machine();
    std::lock_guard lock(all.mutex);
    Device* owner = all.device_of(address);
    Allocation* allocation = owner == nullptr ? nullptr : owner->memory.find(address);
    const auto* byte = static_cast<const std::byte*>(address);
    right = allocation != nullptr && allocation->live && owner->index == device && byte >= allocation->data &&
            byte + bytes <= allocation->data + allocation->bytes;
  }
  if (right || bytes == 0) return;
  die("{}: {} is {}, and {} bytes from there do not lie in one allocation of device {}", call, what,
      describe_address(address), bytes, device);
}

}  // namespace fake_cuda
