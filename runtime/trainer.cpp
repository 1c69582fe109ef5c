#include "runtime/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <sstream>
#include <thread>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/lowering/region_copy.h"
#include "runtime/arena.h"
#include "runtime/initial_values.h"
#include "runtime/rank_threads.h"
#include "runtime/threads/thread_communicator.h"

namespace tpc {
namespace {

// In the order that devices want: what replays collectives, the communicator's hold of the memory, the memory, the
// communicator. What was issued may wait for ranks that do not come, and memory is not released before it has ended.
void release_rank(RankDevice& device, std::unique_ptr<RankExecutor>& executor, bool has_failed) {
  if (!device.backend) return;
  device.backend->enter();
  device.backend->release_segments();
  if (has_failed && device.communicator) device.communicator->abort();
  device.backend->quiesce();
  if (!has_failed && device.communicator) device.communicator->forget_memory();
  executor.reset();
  device.communicator.reset();
  device.backend.reset();
}

// Of ranks in ordinary memory.
void require_memory(const Plan& plan) {
  double needed = static_cast<double>(plan.arena_bytes) * static_cast<double>(plan.mesh.world_size());
  auto present = static_cast<double>(physical_memory());
  if (needed <= present) return;
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  throw DeviceError(fmt::format("{} rank{} of {:.1f} GiB each need {:.1f} GiB of memory; this machine has {:.1f} GiB",
                                plan.mesh.world_size(), plan.mesh.world_size() == 1 ? "" : "s",
                                static_cast<double>(plan.arena_bytes) / kGiB, needed / kGiB, present / kGiB));
}

RendezvousOptions meeting_options(int64_t world_size, int openmp_threads, std::chrono::milliseconds timeout) {
  return {world_size * openmp_threads <= static_cast<int64_t>(std::thread::hardware_concurrency()), timeout};
}

struct RankFinding {
  NonFinite at;
  int64_t rank = 0;
  auto operator<=>(const RankFinding&) const = default;
};
constexpr RankFinding kLatestFinding = {{std::numeric_limits<int>::max(), 0}, 0};

std::string text_of(const RankFinding& finding) {
  return fmt::format("{} {} {}", finding.at.step, finding.at.tensor, finding.rank);
}

// Of the texts of all processes; "" is of one that has found nothing.
std::optional<RankFinding> earliest(const std::vector<std::string>& texts) {
  std::optional<RankFinding> first;
  for (const std::string& text : texts) {
    RankFinding finding;
    std::istringstream numbers(text);
    if (!(numbers >> finding.at.step >> finding.at.tensor >> finding.rank)) continue;
    first = std::min(first.value_or(kLatestFinding), finding);
  }
  return first;
}

std::vector<int64_t> hosted_ranks(const Plan& plan, const TrainerOptions& options) {
  if (!options.ranks.empty()) return options.ranks;
  std::vector<int64_t> all(static_cast<size_t>(plan.mesh.world_size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Trainer::MakeDevice in_ordinary_memory(Trainer::MakeBackend make_backend) {
  return [make_backend = std::move(make_backend)](int64_t rank, ThreadWorld& world) -> RankDevice {
    return {make_backend(), std::make_unique<ThreadCommunicator>(world, rank)};
  };
}

}  // namespace

struct Trainer::State {
  State(Plan p, const TrainerOptions& o)
      : plan(std::move(p)),
        options(o),
        ranks(hosted_ranks(plan, o)),
        num_threads(static_cast<int64_t>(ranks.size())),
        openmp_threads(threads_per_rank(num_threads, o.threads_per_rank)),
        world(num_threads, meeting_options(num_threads, openmp_threads, o.timeout)),
        devices(ranks.size()),
        executors(ranks.size()) {}

  Plan plan;
  TrainerOptions options;
  std::vector<int64_t> ranks;  // of this process; its threads and executors are in this order
  int64_t num_threads;
  int openmp_threads;
  ThreadWorld world;
  std::vector<RankDevice> devices;
  std::vector<std::unique_ptr<RankExecutor>> executors;
  std::unique_ptr<RankThreads> threads;  // last: its end comes before that of what the threads use
  uint64_t step = 0;

  // What the ranks' tasks use lies here rather than on a caller's stack, since an abandoned rank may come back to it.
  StepContext context;
  std::vector<std::pair<int, const HostTensor*>> inputs;
  std::vector<std::optional<int>> stopped;
  std::vector<std::optional<NonFinite>> not_finite;
};

Trainer::Trainer(Plan plan, MakeBackend make_backend, TrainerOptions options)
    : Trainer((require_memory(plan), std::move(plan)), in_ordinary_memory(std::move(make_backend)),
              std::move(options)) {}

Trainer::Trainer(Plan plan, MakeDevice make_device, TrainerOptions options) {
  state_ = std::make_unique<State>(std::move(plan), options);
  State& state = *state_;
  state.threads = std::make_unique<RankThreads>(state.world, state.openmp_threads);
  auto prepare = [&state, make_device = std::move(make_device)](int64_t thread) {
    auto t = static_cast<size_t>(thread);
    int64_t rank = state.ranks[t];
    try {
      state.devices[t] = make_device(rank, state.world);
      state.executors[t] =
          std::make_unique<RankExecutor>(state.plan, rank_plan(state.plan, rank), *state.devices[t].backend,
                                         *state.devices[t].communicator, ExecutorOptions{state.options.is_observed});
      for (size_t i = 0; i < state.plan.tensors.size(); ++i) {
        const PlanTensor& tensor = state.plan.tensors[i];
        if (tensor.role != TensorRole::kParameter && tensor.role != TensorRole::kState) continue;
        state.executors[t]->fill(static_cast<int>(i),
                                 [&](const LocalTensor& host) { fill_initial(tensor, state.options.seed, host); });
      }
      state.devices[t].backend->wait();
    } catch (const RunEnded&) {
      throw;
    } catch (const DeviceError& error) {
      throw DeviceError(fmt::format("rank {}: {}", rank, error.what()));
    }
  };
  try {
    state.threads->run(prepare);
  } catch (...) {
    release();
    throw;
  }
}

Trainer::~Trainer() { release(); }

void Trainer::release() {
  if (!state_) return;
  State& state = *state_;
  if (state.threads && !state.world.has_failed()) {
    try {
      // At once, for the ends of a communicator wait for one another.
      state.threads->run([&state](int64_t thread) {
        auto t = static_cast<size_t>(thread);
        release_rank(state.devices[t], state.executors[t], /*has_failed=*/false);
      });
    } catch (...) {
      // What could not be ended in peace is aborted below.
    }
  }
  bool has_abandoned = state.threads && state.threads->has_abandoned();
  state.threads.reset();
  // A rank that never came back may still use all of this.
  if (has_abandoned) {
    static_cast<void>(state_.release());
    return;
  }
  for (size_t t = 0; t < state.devices.size(); ++t) release_rank(state.devices[t], state.executors[t], true);
  state_.reset();
}

const Plan& Trainer::plan() const { return state_->plan; }
uint64_t Trainer::step() const { return state_->step; }

void Trainer::wait() {
  state_->threads->run([this](int64_t thread) { state_->devices[static_cast<size_t>(thread)].backend->wait(); },
                       [this](int64_t thread) { return where(thread); });
}

std::string Trainer::where(int64_t thread) const {
  const auto& executor = state_->executors[static_cast<size_t>(thread)];
  int position = executor ? executor->position() : -1;
  return position < 0 ? "" : describe_step(state_->plan, position);
}

StepResult Trainer::train_step(const Batch& batch) {
  State& state = *state_;
  state.context = {state.options.seed, state.step};
  state.inputs.clear();
  for (const auto& [name, tensor] : batch) state.inputs.emplace_back(find_tensor(name), &tensor);
  state.stopped.assign(state.executors.size(), std::nullopt);
  state.threads->run(
      [&state](int64_t thread) {
        auto t = static_cast<size_t>(thread);
        for (const auto& [tensor, value] : state.inputs) state.executors[t]->load(tensor, *value);
        state.stopped[t] = state.executors[t]->run_step(state.context);
      },
      [this](int64_t thread) { return where(thread); });
  if (state.stopped[0]) throw_not_finite(*state.stopped[0]);

  ++state.step;
  auto output = [&](const std::string& name) -> std::optional<float> {
    auto it = state.plan.outputs.find(name);
    if (it == state.plan.outputs.end()) return std::nullopt;
    return state.executors[0]->output_value(it->second);
  };
  std::optional<float> loss = output("loss");
  TPC_CHECK(loss.has_value(), "the plan of \"{}\" has no output \"loss\"", state.plan.model_name);
  return {*loss, output("grad_norm")};
}

void Trainer::throw_not_finite(int stopped_at) {
  State& state = *state_;
  std::string output = "a named output";
  for (const auto& [name, tensor] : state.plan.outputs) {
    const std::vector<int>& results = state.plan.steps[static_cast<size_t>(stopped_at)].results;
    if (std::find(results.begin(), results.end(), tensor) != results.end()) output = name;
  }
  if (output == "grad_norm") output = "gradient norm";
  std::string message = fmt::format("the {} of training step {} is not finite", output, state.context.step);
  if (state.executors[0]->changes_persistent_before(stopped_at)) throw UserError({}, message);

  state.not_finite.assign(state.executors.size(), std::nullopt);
  state.threads->run([&state, stopped_at](int64_t thread) {
    auto t = static_cast<size_t>(thread);
    state.not_finite[t] = state.executors[t]->find_non_finite(state.context, stopped_at + 1);
  });
  std::optional<RankFinding> first;
  for (size_t t = 0; t < state.not_finite.size(); ++t) {
    if (state.not_finite[t]) first = std::min(first.value_or(kLatestFinding), {*state.not_finite[t], state.ranks[t]});
  }
  if (state.options.gather) first = earliest(state.options.gather(first ? text_of(*first) : ""));
  if (first) {
    const NonFinite& at = first->at;
    const std::string& tensor = state.plan.tensors[static_cast<size_t>(at.tensor)].name;
    message += at.step < 0 ? fmt::format("; \"{}\" was not finite before the step, on rank {}", tensor, first->rank)
                           : fmt::format("; the first node whose result is not finite is {}, tensor \"{}\", on rank {}",
                                         describe_step(state.plan, at.step), tensor, first->rank);
  }
  throw UserError({}, message);
}

int Trainer::find_tensor(const std::string& name) const {
  const std::vector<PlanTensor>& tensors = state_->plan.tensors;
  auto it = std::find_if(tensors.begin(), tensors.end(), [&](const PlanTensor& t) { return t.name == name; });
  TPC_CHECK(it != tensors.end(), "the plan has no tensor \"{}\"", name);
  return static_cast<int>(it - tensors.begin());
}

void Trainer::set_tensor(const std::string& name, const HostTensor& value) {
  int tensor = find_tensor(name);
  for (size_t t = 0; t < state_->executors.size(); ++t) enter(t).load(tensor, value);
}

void Trainer::keep(const std::string& name) {
  int tensor = find_tensor(name);
  for (size_t t = 0; t < state_->executors.size(); ++t) enter(t).keep(tensor);
}

// For the calling thread to use.
RankExecutor& Trainer::enter(size_t thread) const {
  state_->devices[thread].backend->enter();
  return *state_->executors[thread];
}

RankExecutor& Trainer::executor_of(int64_t rank) const {
  auto it = std::find(state_->ranks.begin(), state_->ranks.end(), rank);
  TPC_CHECK(it != state_->ranks.end(), "rank {} is not of this process", rank);
  return enter(static_cast<size_t>(it - state_->ranks.begin()));
}

HostTensor Trainer::part(int64_t rank, const std::string& name) const {
  std::optional<HostTensor> part = executor_of(rank).kept_or_persistent(find_tensor(name));
  TPC_CHECK(part.has_value(), "\"{}\" does not persist and was not kept", name);
  return std::move(*part);
}

LocalTensor Trainer::local(int64_t rank, int tensor) const { return executor_of(rank).local(tensor); }

void Trainer::observe(const StepObserver& observer) {
  for (auto& executor : state_->executors) executor->observe(observer);
}

void Trainer::time_units() {
  for (auto& executor : state_->executors) executor->time_units();
}

std::vector<UnitTime> Trainer::unit_times() const { return state_->executors[0]->unit_times(); }

std::optional<RankMemory> Trainer::memory_use() const {
  // Not on this stack, see State.
  auto uses = std::make_shared<std::vector<std::optional<MemoryUse>>>(state_->devices.size());
  state_->threads->run([&state = *state_, uses](int64_t thread) {
    auto t = static_cast<size_t>(thread);
    (*uses)[t] = state.devices[t].backend->memory_use();
  });
  std::optional<RankMemory> fullest;
  for (size_t t = 0; t < uses->size(); ++t) {
    const std::optional<MemoryUse>& use = (*uses)[t];
    if (use && (!fullest || use->used > fullest->use.used)) fullest = {state_->executors[t]->planned_memory(), *use};
  }
  return fullest;
}

HostTensor Trainer::get_tensor(const std::string& name) const {
  int index = find_tensor(name);
  const PlanTensor& tensor = state_->plan.tensors[static_cast<size_t>(index)];
  const DeviceMesh& mesh = state_->plan.mesh;
  HostTensor whole = HostTensor::of(tensor.type);
  std::vector<char> is_filled(whole.size());
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    // Of equal copies the first rank's is taken.
    std::vector<int64_t> coordinate = mesh.coordinate(rank);
    bool is_copy = false;
    for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
      is_copy = is_copy || (tensor.sharding.placements[axis].is_replicate() && coordinate[axis] > 0);
    }
    if (is_copy) continue;
    HostTensor held = part(rank, name);
    RegionCopy copy(executor_of(rank).local(index).region, whole_region(tensor.type.shape));
    if (!tensor.sharding.has_partial()) {
      copy.run(held.data(), whole.data(), byte_size(tensor.type.dtype));
      continue;
    }
    bool is_max = std::any_of(tensor.sharding.placements.begin(), tensor.sharding.placements.end(),
                              [](const Placement& p) { return p.is_partial() && p.reduce == ReduceOp::kMax; });
    auto take = [&](const auto& elements, auto& all) {
      using Element = std::remove_cvref_t<decltype(all[0])>;
      copy.for_each_run([&](int64_t source, int64_t destination, int64_t length) {
        for (int64_t i = 0; i < length; ++i) {
          auto at = static_cast<size_t>(destination + i);
          auto value = static_cast<float>(elements[static_cast<size_t>(source + i)]);
          auto before = static_cast<float>(all[at]);
          all[at] = static_cast<Element>(!is_filled[at] ? value : is_max ? std::max(before, value) : before + value);
          is_filled[at] = 1;
        }
      });
    };
    if (tensor.type.dtype == DType::kBF16) {
      take(held.bf16, whole.bf16);
    } else {
      take(held.f32, whole.f32);
    }
  }
  return whole;
}

Traffic Trainer::counted() const {
  Traffic sum;
  for (const auto& executor : state_->executors) {
    for (const auto& [key, bytes] : executor->counted()) sum[key] += bytes;
  }
  return sum;
}

Traffic Trainer::predicted() const {
  Traffic sum;
  for (const auto& executor : state_->executors) {
    for (const auto& [key, bytes] : executor->predicted_per_step()) {
      sum[key] += bytes * static_cast<int64_t>(state_->step);
    }
  }
  return sum;
}

void Trainer::check_traffic() const {
  for (const auto& executor : state_->executors) {
    for (const auto& [key, bytes] : executor->predicted_per_step()) {
      int64_t predicted = bytes * static_cast<int64_t>(state_->step);
      int64_t counted = executor->counted().at(key);
      if (counted == predicted) continue;
      throw InternalError(
          fmt::format("rank {} received {} bytes by {} in the {} phase of {} steps; the plan predicts {}",
                      executor->rank(), counted, op_name(key.first), to_string(key.second), state_->step, predicted));
    }
  }
}

}  // namespace tpc
