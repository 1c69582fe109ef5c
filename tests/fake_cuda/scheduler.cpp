#include "tests/fake_cuda/scheduler.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "tests/fake_cuda/memory_faults.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

using std::chrono::steady_clock;

// Streams change between quick and slow so often; a slow one is drawn less. Even draws would seldom let one stream run
// far ahead of another.
constexpr uint64_t kDrawsOfAMood = 24;
constexpr uint64_t kQuick = 16;

// A collective that was drawn is waited for, for a while, before other work is drawn: else the order would depend on
// when the peers come, and a seed would not give the same run again.
constexpr std::chrono::milliseconds kPatience{20};

struct Candidate {
  CUstream_st* stream;
  size_t step;
  uint64_t weight;
};

uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= 0x9e3779b97f4a7c15;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9;
  return x ^ (x >> 32);
}

bool is_ready(const Item& item, const Item::Step& step) {
  return !step.done && !step.running &&
         std::all_of(step.after.begin(), step.after.end(), [&](size_t before) { return item.steps[before].done; });
}

// An executable graph may be launched again before it has ended, then the launches run one after the other.
bool may_start(Item& item) {
  if (item.exclusive && !item.started) {
    if (*item.exclusive) return false;
    *item.exclusive = true;
  }
  item.started = true;
  return true;
}

void pop_finished(CUstream_st& stream) {
  while (!stream.items.empty()) {
    Item& item = stream.items.front();
    if (!std::all_of(item.steps.begin(), item.steps.end(), [](const Item::Step& step) { return step.done; })) return;
    if (item.steps.empty() && !may_start(item)) return;
    if (item.exclusive) *item.exclusive = false;
    stream.items.pop_front();
  }
}

std::vector<Candidate> candidates(Device& device) {
  std::vector<Candidate> found;
  uint64_t mood = device.num_draws / kDrawsOfAMood;
  for (CUstream_st* stream : device.streams) {
    pop_finished(*stream);
    if (stream->items.empty() || !may_start(stream->items.front())) continue;
    const Item& item = stream->items.front();
    for (size_t i = 0; i < item.steps.size(); ++i) {
      if (!is_ready(item, item.steps[i])) continue;
      uint64_t lane = static_cast<uint64_t>(item.steps[i].lane) + 1;
      uint64_t coin =
          mix(mix(mix(machine().settings.seed) ^ mood) ^ lane ^ static_cast<uint64_t>(device.physical) << 32);
      found.push_back({stream, i, (coin & 1) != 0 ? kQuick : 1});
    }
  }
  return found;
}

size_t draw(Device& device, const std::vector<Candidate>& from) {
  ++device.num_draws;
  uint64_t total = 0;
  for (const Candidate& candidate : from) total += candidate.weight;
  uint64_t at = device.random() % total;
  size_t i = 0;
  while (at >= from[i].weight) at -= from[i++].weight;
  return i;
}

Progress advance(Work& work, bool others_could_run) {
  set_running_work(&work.name);
  try {
    Progress progress = work.advance();
    steady_clock::time_point end = steady_clock::now() + kPatience;
    while (progress == Progress::kRemote && others_could_run && steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      progress = work.advance();
    }
    set_running_work(nullptr);
    return progress;
  } catch (const std::exception& error) {
    die("\"{}\": {}", work.name, error.what());
  }
}

// Draws until something moves. kBlocked: there is no work, or all of it waits.
Progress run_one(Device& device, std::unique_lock<std::mutex>& lock) {
  std::vector<Candidate> left = candidates(device);
  std::erase_if(device.streams, [](const CUstream_st* stream) { return stream->destroyed && stream->items.empty(); });
  Progress outcome = Progress::kBlocked;
  while (!left.empty()) {
    size_t drawn = draw(device, left);
    Candidate candidate = left[drawn];
    // The front of a deque stays where it is when others append to it.
    Item::Step& step = candidate.stream->items.front().steps[candidate.step];
    step.running = true;
    lock.unlock();
    Progress progress = advance(step.work, left.size() > 1);
    lock.lock();
    step.running = false;
    if (progress == Progress::kDone) {
      step.done = true;
      step.work = Work{};
      pop_finished(*candidate.stream);
      return Progress::kMoved;
    }
    if (progress == Progress::kMoved || progress == Progress::kFailed) return progress;
    if (progress == Progress::kRemote) outcome = Progress::kRemote;
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(drawn));
  }
  return outcome;
}

std::string head(const CUstream_st& stream) {
  if (stream.items.empty()) return "nothing";
  const Item& item = stream.items.front();
  std::string text;
  for (const Item::Step& step : item.steps) {
    if (step.done || !is_ready(item, step)) continue;
    std::string what = step.work.what ? step.work.what() : "";
    text += (text.empty() ? "" : "; ") + step.work.name + (what.empty() ? "" : " (" + what + ")");
  }
  if (text.empty()) text = "a graph that runs elsewhere";
  return fmt::format("{}, then {} more", text, stream.items.size() - 1);
}

[[noreturn]] void die_stuck(const char* call, const Device& device, std::string_view why) {
  std::string text = fmt::format("{} on device {} (rank {}) waits for ever, {}:\n{}", call, device.index, device.rank,
                                 why, stream_heads(device));
  for (const std::unique_ptr<Device>& other : machine().devices) {
    if (other && other.get() != &device) text += stream_heads(*other);
  }
  text.pop_back();
  die_with(text);
}

}  // namespace

void issue(const char* call, cudaStream_t stream, MakeWork make) {
  check_stream(call, stream);
  Machine& all = machine();
  {
    std::lock_guard lock(all.mutex);
    if (stream->capture) {
      capture_node(stream, std::move(make));
      return;
    }
  }
  // Made without the lock: a collective takes its turn here.
  Work work = make();
  std::lock_guard lock(all.mutex);
  Item item;
  item.steps.push_back({std::move(work), {}, stream->number});
  stream->items.push_back(std::move(item));
}

void issue_graph(cudaStream_t stream, CUgraphExec_st& graph) {
  Item item;
  for (const Node& node : graph.nodes) item.steps.push_back({node.make(), node.after, node.lane});
  item.exclusive = graph.running;
  std::lock_guard lock(machine().mutex);
  stream->items.push_back(std::move(item));
}

void run_until(const char* call, Device& device, const std::function<bool()>& condition) {
  Machine& all = machine();
  std::unique_lock lock(all.mutex);
  if (condition()) return;
  device.memory.open();
  steady_clock::time_point moved = steady_clock::now();
  while (!condition()) {
    Progress progress = run_one(device, lock);
    if (progress == Progress::kFailed) die_stuck(call, device, "for work that cannot go on");
    if (progress == Progress::kMoved) {
      moved = steady_clock::now();
      continue;
    }
    if (steady_clock::now() - moved > all.settings.stuck) {
      die_stuck(call, device, fmt::format("nothing has moved for {} s", all.settings.stuck.count() / 1000));
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
  device.memory.close();
}

void run_some(Device& device) {
  Progress progress = Progress::kBlocked;
  {
    std::unique_lock lock(machine().mutex);
    if (!is_idle(device)) {
      // Opening and closing takes longer than most items.
      constexpr int kMostItems = 100;
      device.memory.open();
      for (int i = 0; i < kMostItems; ++i) {
        Progress next = run_one(device, lock);
        if (next != Progress::kMoved) break;
        progress = next;
      }
      device.memory.close();
    }
  }
  if (progress != Progress::kMoved) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool is_idle(const CUstream_st& stream) { return stream.items.empty(); }

bool is_idle(const Device& device) {
  return std::all_of(device.streams.begin(), device.streams.end(), [](const CUstream_st* s) { return is_idle(*s); });
}

std::string stream_heads(const Device& device) {
  std::string text;
  for (const CUstream_st* stream : device.streams) {
    text +=
        fmt::format("  device {} (rank {}) stream {}: {}\n", device.index, device.rank, stream->number, head(*stream));
  }
  return text.empty() ? fmt::format("  device {}: no stream\n", device.index) : text;
}

void check_stream(const char* call, cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    die("{}: work on the NULL stream, which waits for every other one", call);
  }
  std::lock_guard lock(machine().mutex);
  if (stream->destroyed) die("{}: stream {} of device {} was destroyed", call, stream->number, stream->device->index);
}

void check_event(const char* call, cudaEvent_t event) {
  if (event == nullptr) die("{}: no event", call);
  std::lock_guard lock(machine().mutex);
  if (event->destroyed) die("{}: event {} of device {} was destroyed", call, event->number, event->device->index);
}

}  // namespace fake_cuda
