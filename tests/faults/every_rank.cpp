#include "tests/faults/every_rank.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/core/check.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/data.h"
#include "runtime/initial_values.h"
#include "compiler/lowering/region_copy.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {

EveryRank::EveryRank(Plan plan, uint64_t seed)
    : plan_(std::move(plan)),
      world_(plan_.mesh.world_size(), {false, std::chrono::seconds(30)}),
      backends_(static_cast<size_t>(plan_.mesh.world_size())),
      communicators_(backends_.size()),
      executors_(backends_.size()),
      seed_(seed),
      threads_(std::make_unique<RankThreads>(world_, 1)) {
  threads_->run([this](int64_t rank) {
    auto r = static_cast<size_t>(rank);
    backends_[r] = make_cpu_backend();
    communicators_[r] = std::make_unique<ThreadCommunicator>(world_, rank);
    executors_[r] = std::make_unique<RankExecutor>(plan_, rank_plan(plan_, rank), *backends_[r], *communicators_[r]);
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const PlanTensor& tensor = plan_.tensors[t];
      if (tensor.role != TensorRole::kParameter && tensor.role != TensorRole::kState) continue;
      executors_[r]->fill(static_cast<int>(t),
                          [&](const tpc::LocalTensor& host) { fill_initial(tensor, seed_, host); });
    }
  });
}

int EveryRank::index(const std::string& name) const {
  int tensor = find_tensor(plan_, name);
  TPC_CHECK(tensor >= 0, "the plan has no \"{}\"", name);
  return tensor;
}

void EveryRank::set_tensor(const std::string& name, const HostTensor& whole) {
  for (auto& executor : executors_) executor->load(index(name), whole);
}

void EveryRank::keep(const std::string& name) {
  for (auto& executor : executors_) executor->keep(index(name));
}

void EveryRank::train_step(const Batch& batch) {
  threads_->run([&](int64_t rank) {
    RankExecutor& executor = *executors_[static_cast<size_t>(rank)];
    for (const auto& [name, tensor] : batch) executor.load(index(name), tensor);
    executor.run_step({seed_, step_});
  });
  ++step_;
}

float EveryRank::loss() const { return executors_[0]->output_value(plan_.outputs.at("loss")); }

std::vector<EveryRank::Part> EveryRank::parts(const std::string& name) const {
  std::vector<Part> parts;
  for (const auto& executor : executors_) {
    std::optional<HostTensor> held = executor->kept_or_persistent(index(name));
    TPC_CHECK(held.has_value(), "\"{}\" is not kept", name);
    parts.push_back({executor->local(index(name)).region, std::move(*held)});
  }
  return parts;
}

std::string EveryRank::unequal_replicas(const std::string& name) const {
  if (tensor_named(plan_, name).sharding.has_partial()) return "";
  std::vector<Part> held = parts(name);
  for (size_t a = 0; a < held.size(); ++a) {
    for (size_t b = a + 1; b < held.size(); ++b) {
      if (held[a].region != held[b].region) continue;
      if (std::memcmp(held[a].values.data(), held[b].values.data(), held[a].values.size() * 4) == 0) continue;
      return fmt::format("{}: ranks {} and {}", name, a, b);
    }
  }
  return "";
}

std::string EveryRank::unequal_replicas() const {
  for (const PlanTensor& tensor : plan_.tensors) {
    if (tensor.role != TensorRole::kParameter && tensor.role != TensorRole::kState) continue;
    std::string found = unequal_replicas(tensor.name);
    if (!found.empty()) return found;
  }
  return "";
}

Batch fixed_batch(const Plan& plan, uint64_t seed) { return fixed_data(plan, seed)->batch(0); }

HostTensor filled(const TensorType& type, const std::function<float(int64_t index)>& value) {
  HostTensor tensor = HostTensor::of(type);
  for (size_t i = 0; i < tensor.f32.size(); ++i) tensor.f32[i] = value(static_cast<int64_t>(i));
  return tensor;
}

std::vector<float> cut(const HostTensor& whole, const Region& region) {
  std::vector<float> part(static_cast<size_t>(region.num_elements()));
  RegionCopy(whole_region(whole.type.shape), region).run(whole.f32.data(), part.data());
  return part;
}

}  // namespace tpc::testing
