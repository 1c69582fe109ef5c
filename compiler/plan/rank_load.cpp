#include "compiler/plan/rank_load.h"

#include <algorithm>
#include <map>
#include <set>

namespace tpc {
namespace {

/// Beyond this many sampled ranks only the blocks of tensors count, no longer the blocks of their flattened elements.
constexpr size_t kMaxSampled = 2000;
constexpr size_t kMaxEnumerated = 200000;

size_t position(int index) { return static_cast<size_t>(index); }

/// Sizes whose balanced split decides how much a rank holds.
std::set<int64_t> block_sizes(const Plan& plan, const PlanClasses& classes) {
  std::set<int64_t> sizes;
  for (int example : classes.tensor_examples) {
    const PlanTensor& tensor = plan.tensors[position(example)];
    TensorSharding outer = TensorSharding::replicated(plan.mesh);
    for (size_t axis = 0; axis < plan.mesh.num_axes(); ++axis) {
      const Placement& placement = tensor.sharding.placements[axis];
      if (placement.is_shard()) {
        // What the axes before this one left, on the first rank and (one unit less) on a later one.
        int64_t left = fullest_shape(tensor.type.shape, outer, plan.mesh)[position(placement.dim)] / placement.unit;
        sizes.insert(left);
        if (left > 1) sizes.insert(left - 1);
      }
      outer.placements[axis] = placement;
    }
  }
  return sizes;
}

std::set<int64_t> flattened_sizes(const Plan& plan, const PlanClasses& classes) {
  std::set<int64_t> sizes;
  for (int example : classes.step_examples) {
    const PlanStep& step = plan.steps[position(example)];
    if (step.op != OpKind::kAllReduce) continue;
    const PlanTensor& operand = plan.tensors[position(step.operands[0])];
    sizes.insert(num_elements(fullest_shape(operand.type.shape, operand.sharding, plan.mesh)));
  }
  return sizes;
}

/// An upper bound of the coordinates that representative_coordinates gives for so many sizes.
size_t most_coordinates(const DeviceMesh& mesh, size_t num_sizes) {
  size_t count = 1;
  for (const MeshAxis& axis : mesh.axes()) count *= std::min(static_cast<size_t>(axis.size), 2 * num_sizes + 2);
  return count;
}

/// Ranks from this coordinate up to the next sampled one, on each axis.
int64_t ranks_like(const Plan& plan, const std::vector<std::set<int64_t>>& points,
                   const std::vector<int64_t>& coordinate) {
  int64_t count = 1;
  for (size_t axis = 0; axis < coordinate.size(); ++axis) {
    auto next = points[axis].upper_bound(coordinate[axis]);
    count *= (next == points[axis].end() ? plan.mesh.axis_size(axis) : *next) - coordinate[axis];
  }
  return count;
}

/// When each block of memory is used, whoever writes it: tensors that share bytes (reshapes, work in place) are one.
struct SharedBuffers {
  std::vector<int> root;                   ///< of every tensor: the first tensor in its buffer
  std::vector<std::vector<int>> starting;  ///< per step: roots
  std::vector<std::vector<int>> ending;
};

bool counts_as_activation(const PlanTensor& tensor) {
  return tensor.role == TensorRole::kActivation || tensor.role == TensorRole::kOther ||
         tensor.role == TensorRole::kWeight;
}

SharedBuffers find_shared_buffers(const Plan& plan) {
  SharedBuffers buffers;
  buffers.root.resize(plan.tensors.size());
  for (size_t i = 0; i < plan.tensors.size(); ++i) buffers.root[i] = static_cast<int>(i);
  std::vector<int> first(plan.tensors.size(), -1);
  std::vector<int> last(plan.tensors.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    int now = static_cast<int>(i);
    for (int operand : step.operands) last[position(buffers.root[position(operand)])] = now;
    for (int result : step.results) {
      int& root = buffers.root[position(result)];
      for (int operand : step.operands) {
        if (plan.tensors[position(operand)].offset == plan.tensors[position(result)].offset) {
          root = buffers.root[position(operand)];
        }
      }
      if (root == result) first[position(result)] = now;
      last[position(root)] = now;
    }
  }
  int num_steps = static_cast<int>(plan.steps.size());
  for (const auto& [name, output] : plan.outputs) last[position(buffers.root[position(output)])] = num_steps - 1;
  buffers.starting.resize(plan.steps.size());
  buffers.ending.resize(plan.steps.size());
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    if (first[i] < 0 || !counts_as_activation(plan.tensors[i])) continue;
    buffers.starting[position(first[i])].push_back(static_cast<int>(i));
    buffers.ending[position(last[i])].push_back(static_cast<int>(i));
  }
  return buffers;
}

/// Bytes of each tensor class on one rank.
std::vector<int64_t> class_bytes(const Plan& plan, const PlanClasses& classes, std::span<const int64_t> coordinate) {
  std::vector<int64_t> bytes;
  bytes.reserve(classes.tensor_examples.size());
  for (int example : classes.tensor_examples) {
    const PlanTensor& tensor = plan.tensors[position(example)];
    bytes.push_back(local_region(tensor.type.shape, tensor.sharding, plan.mesh, coordinate).num_elements() *
                    byte_size(tensor.type.dtype));
  }
  return bytes;
}

void add_memory(const Plan& plan, const PlanClasses& classes, const SharedBuffers& buffers,
                const std::vector<int64_t>& bytes, RankLoad& load) {
  auto bytes_of = [&](size_t tensor) { return bytes[position(classes.tensors[tensor])]; };
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    switch (plan.tensors[i].role) {
      case TensorRole::kParameter:
        load.parameter_bytes += bytes_of(i);
        load.parameters += bytes_of(i) / byte_size(plan.tensors[i].type.dtype);
        break;
      case TensorRole::kGradient:
        load.gradient_bytes += bytes_of(i);
        break;
      case TensorRole::kState:
        load.optimizer_state_bytes += bytes_of(i);
        break;
      case TensorRole::kInput:
        load.input_bytes += bytes_of(i);
        break;
      case TensorRole::kActivation:
      case TensorRole::kOther:
      case TensorRole::kWeight:
        break;
    }
  }
  int64_t alive = 0;
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    for (int tensor : buffers.starting[step]) alive += bytes_of(position(tensor));
    if (alive > load.peak_activation_bytes) {
      load.peak_activation_bytes = alive;
      load.peak_step = static_cast<int>(step);
    }
    for (int tensor : buffers.ending[step]) alive -= bytes_of(position(tensor));
  }
}

}  // namespace

std::vector<RankLoad> sample_ranks(const Plan& plan, const PlanClasses& classes) {
  std::set<int64_t> sizes = block_sizes(plan, classes);
  std::vector<int64_t> list(sizes.begin(), sizes.end());
  std::vector<std::vector<int64_t>> coordinates = representative_coordinates(plan.mesh, list);
  sizes.merge(flattened_sizes(plan, classes));
  list.assign(sizes.begin(), sizes.end());
  if (most_coordinates(plan.mesh, list.size()) <= kMaxEnumerated) {
    std::vector<std::vector<int64_t>> finer = representative_coordinates(plan.mesh, list);
    if (finer.size() <= kMaxSampled) coordinates = std::move(finer);
  }

  std::vector<std::set<int64_t>> points(plan.mesh.num_axes());
  for (const std::vector<int64_t>& coordinate : coordinates) {
    for (size_t axis = 0; axis < coordinate.size(); ++axis) points[axis].insert(coordinate[axis]);
  }
  std::vector<RankLoad> ranks;
  for (const std::vector<int64_t>& coordinate : coordinates) {
    RankLoad load;
    load.rank = plan.mesh.rank_at(coordinate);
    load.coordinate = coordinate;
    load.ranks_like_it = ranks_like(plan, points, coordinate);
    ranks.push_back(std::move(load));
  }
  return ranks;
}

void add_memory_and_work(const Plan& plan, const PlanClasses& classes, std::vector<RankLoad>& ranks) {
  SharedBuffers buffers = find_shared_buffers(plan);
  std::vector<int64_t> times(classes.step_examples.size(), 0);
  for (int step_class : classes.steps) ++times[position(step_class)];
  // Ranks whose blocks have the same sizes have the same load.
  std::map<std::vector<int64_t>, RankLoad> known;
  for (RankLoad& load : ranks) {
    std::vector<int64_t> bytes = class_bytes(plan, classes, load.coordinate);
    auto [found, is_new] = known.try_emplace(bytes);
    if (is_new) {
      add_memory(plan, classes, buffers, bytes, found->second);
      for (size_t c = 0; c < classes.step_examples.size(); ++c) {
        const PlanStep& step = plan.steps[position(classes.step_examples[c])];
        if (!op_def(step.op).heavy) continue;
        found->second.multiply_adds +=
            local_cost(plan, step, load.coordinate).flops / 2 * static_cast<double>(times[c]);
      }
    }
    RankLoad same = found->second;
    same.rank = load.rank;
    same.coordinate = load.coordinate;
    same.ranks_like_it = load.ranks_like_it;
    load = std::move(same);
  }
}

}  // namespace tpc
