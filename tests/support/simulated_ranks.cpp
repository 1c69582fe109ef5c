#include "tests/support/simulated_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "compiler/core/check.h"
#include "compiler/core/philox.h"
#include "compiler/ops/region_index.h"

namespace tpc::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> buffer_of(const Region& region, double value) {
  return std::vector<double>(static_cast<size_t>(region.num_elements()), value);
}

Region intersection(const Region& a, const Region& b) {
  Region result = a;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    Interval& interval = result.dims[d];
    interval.begin = std::max(interval.begin, b.dims[d].begin);
    interval.end = std::max(interval.begin, std::min(interval.end, b.dims[d].end));
  }
  return result;
}

/// target = combine(target, source) at every index of `part`, which both regions contain.
template <class Combine>
void combine_part(const Region& part, const Region& source_region, const double* source, const Region& target_region,
                  double* target, Combine&& combine) {
  if (part.num_elements() == 0) return;
  std::array<IndexMap, 2> maps{trailing_map(source_region, part), trailing_map(target_region, part)};
  for_each_offset(part, maps,
                  [&](std::span<const int64_t> at) { target[at[1]] = combine(target[at[1]], source[at[0]]); });
}

void copy_part(const Region& part, const Region& source_region, const double* source, const Region& target_region,
               double* target) {
  combine_part(part, source_region, source, target_region, target, [](double, double value) { return value; });
}

double reduced(ReduceOp op, double a, double b) { return op == ReduceOp::kSum ? a + b : std::max(a, b); }

double neutral(ReduceOp op) { return op == ReduceOp::kSum ? 0 : -kInfinity; }

/// Mesh axes on which the sharding has placements of `kind`.
std::vector<int64_t> axes_with(const TensorSharding& sharding, Placement::Kind kind) {
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < sharding.placements.size(); ++axis) {
    if (sharding.placements[axis].kind == kind) axes.push_back(static_cast<int64_t>(axis));
  }
  return axes;
}

/// The reduction of all Partial axes, which must be one (a sum of maxima depends on their order); nullopt without them.
std::optional<ReduceOp> reduce_of(const TensorSharding& sharding) {
  std::optional<ReduceOp> result;
  for (const Placement& placement : sharding.placements) {
    if (!placement.is_partial()) continue;
    TPC_CHECK(!result || *result == placement.reduce, "{} mixes reductions", to_string(sharding));
    result = placement.reduce;
  }
  return result;
}

/// One whole tensor for each member of the Partial group; their reduction is `tensor`.
std::vector<GlobalTensor> contributions(const GlobalTensor& tensor, int64_t members, ReduceOp op, uint64_t seed) {
  std::vector<GlobalTensor> result;
  for (int64_t member = 0; member < members; ++member) {
    result.push_back(random_normal_tensor(tensor.type, seed, fmt::format("contribution {}", member)));
  }
  PhiloxKey owner_key = philox_key(seed, "owner");
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    size_t owner = random_word(owner_key, 0, i) % static_cast<size_t>(members);
    double rest = 0;
    for (size_t member = 0; member < result.size(); ++member) {
      if (member == owner) continue;
      double& value = result[member].data[i];
      if (op == ReduceOp::kMax) value = tensor.data[i] - std::abs(value);
      rest += value;
    }
    result[owner].data[i] = op == ReduceOp::kMax ? tensor.data[i] : tensor.data[i] - rest;
  }
  return result;
}

bool same_bits(const LocalTensor& a, const LocalTensor& b) {
  return a.data.size() == b.data.size() &&
         std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(double)) == 0;
}

LocalTensor moved(const Move& move, const Shape& shape, const RankTensors& parts, const DeviceMesh& mesh,
                  int64_t rank) {
  std::vector<int64_t> coordinate = mesh.coordinate(rank);
  const LocalTensor& own = parts[static_cast<size_t>(rank)];
  LocalTensor result{local_region(shape, move.to, mesh, coordinate), {}};
  double* data = nullptr;
  auto start_with = [&](double value) {
    result.data = buffer_of(result.region, value);
    data = result.data.data();
  };
  switch (move.kind) {
    case MoveKind::kAllReduce:
    case MoveKind::kReduceScatter: {
      ReduceOp op = move.from.placements[static_cast<size_t>(move.axes[0])].reduce;
      start_with(neutral(op));
      for (int64_t peer : mesh.group(move.axes, rank)) {
        const LocalTensor& part = parts[static_cast<size_t>(peer)];
        combine_part(result.region, part.region, part.data.data(), result.region, data,
                     [&](double a, double b) { return reduced(op, a, b); });
      }
      return result;
    }
    case MoveKind::kAllGather:
    case MoveKind::kAllToAll: {
      start_with(kNan);
      int64_t filled = 0;
      for (int64_t peer : mesh.group(move.axes, rank)) {
        const LocalTensor& part = parts[static_cast<size_t>(peer)];
        Region shared = intersection(part.region, result.region);
        filled += shared.num_elements();
        copy_part(shared, part.region, part.data.data(), result.region, data);
      }
      if (filled == result.region.num_elements()) return result;
      throw SimulationError(fmt::format("{} from {} to {}: the group of rank {} holds {} of its {} elements",
                                        to_string(move.kind), to_string(move.from), to_string(move.to), rank, filled,
                                        result.region.num_elements()));
    }
    case MoveKind::kSlice:
      start_with(kNan);
      copy_part(result.region, own.region, own.data.data(), result.region, data);
      return result;
    case MoveKind::kMask:
      start_with(0);
      if (mesh.index_in_group(move.axes, coordinate) == 0) result.data = own.data;
      return result;
    case MoveKind::kZeroPad:
      start_with(0);
      copy_part(own.region, own.region, own.data.data(), result.region, data);
      return result;
  }
  TPC_UNREACHABLE("move kind {}", static_cast<int>(move.kind));
}

}  // namespace

RankTensors shard_tensor(const GlobalTensor& tensor, const TensorSharding& sharding, const DeviceMesh& mesh,
                         uint64_t seed) {
  std::vector<int64_t> partial_axes = axes_with(sharding, Placement::Kind::kPartial);
  std::vector<GlobalTensor> split;
  if (std::optional<ReduceOp> op = reduce_of(sharding)) {
    split = contributions(tensor, mesh.group_size(partial_axes), *op, seed);
  }
  Region whole = whole_region(tensor.type.shape);
  RankTensors parts;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    std::vector<int64_t> coordinate = mesh.coordinate(rank);
    size_t member = static_cast<size_t>(mesh.index_in_group(partial_axes, coordinate));
    const GlobalTensor& source = split.empty() ? tensor : split[member];
    Region region = local_region(tensor.type.shape, sharding, mesh, coordinate);
    LocalTensor part{region, buffer_of(region, kNan)};
    copy_part(region, whole, source.data.data(), region, part.data.data());
    parts.push_back(std::move(part));
  }
  return parts;
}

GlobalTensor assemble_tensor(const TensorType& type, const RankTensors& parts, const TensorSharding& sharding,
                             const DeviceMesh& mesh) {
  std::vector<int64_t> replicated = axes_with(sharding, Placement::Kind::kReplicate);
  std::optional<ReduceOp> op = reduce_of(sharding);
  GlobalTensor whole = constant_tensor(type, op ? neutral(*op) : kNan);
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    const LocalTensor& part = parts[static_cast<size_t>(rank)];
    if (part.region != local_region(type.shape, sharding, mesh, mesh.coordinate(rank))) {
      throw SimulationError(
          fmt::format("rank {} does not hold its part of {} as {}", rank, to_string(type), to_string(sharding)));
    }
    int64_t first = mesh.group(replicated, rank)[0];
    if (first != rank) {
      if (same_bits(part, parts[static_cast<size_t>(first)])) continue;
      throw SimulationError(fmt::format("ranks {} and {} hold different replicas of {} as {}", first, rank,
                                        to_string(type), to_string(sharding)));
    }
    combine_part(part.region, part.region, part.data.data(), whole_region(type.shape), whole.data.data(),
                 [&](double a, double b) { return op ? reduced(*op, a, b) : b; });
  }
  return whole;
}

RankTensors apply_move(const Move& move, const Shape& shape, const RankTensors& parts, const DeviceMesh& mesh) {
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    if (parts[static_cast<size_t>(rank)].region == local_region(shape, move.from, mesh, mesh.coordinate(rank)))
      continue;
    throw SimulationError(
        fmt::format("rank {} does not hold its part of {} as {}", rank, to_string(shape), to_string(move.from)));
  }
  RankTensors result;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) result.push_back(moved(move, shape, parts, mesh, rank));
  return result;
}

TypedOp typed_op(const OpDef& op, const Attributes& attributes, std::vector<TensorType> operands) {
  std::vector<TensorType> results = op.infer_types({attributes, operands, {}});
  return {op, attributes, std::move(operands), std::move(results)};
}

std::vector<RankTensors> run_on_ranks(const TypedOp& op, std::span<const RankTensors* const> operands,
                                      std::span<const TensorSharding> results, const DeviceMesh& mesh,
                                      StepContext context) {
  std::vector<RankTensors> made(op.results.size());
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    std::vector<int64_t> coordinate = mesh.coordinate(rank);
    std::vector<ReferenceTensor> ins;
    for (size_t i = 0; i < operands.size(); ++i) {
      const LocalTensor& part = (*operands[i])[static_cast<size_t>(rank)];
      // Kernels only read their operands; ReferenceTensor serves both sides.
      ins.push_back({op.operands[i], part.region, const_cast<double*>(part.data.data())});
    }
    std::vector<ReferenceTensor> outs;
    for (size_t i = 0; i < op.results.size(); ++i) {
      Region region = local_region(op.results[i].shape, results[i], mesh, coordinate);
      made[i].push_back({region, buffer_of(region, kNan)});
      outs.push_back({op.results[i], region, made[i].back().data.data()});
    }
    bool is_first = true;
    if (op.attributes.has("axes")) {
      is_first = mesh.index_in_group(op.attributes.get_ints("axes"), coordinate) == 0;
    }
    op.op.reference({op.attributes, ins, outs, context, is_first});
  }
  return made;
}

std::vector<GlobalTensor> run_sharded(const TypedOp& op, std::span<const GlobalTensor> operands,
                                      const NodeSharding& sharding, const DeviceMesh& mesh, StepContext context) {
  std::vector<RankTensors> parts;
  std::vector<const RankTensors*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    parts.push_back(shard_tensor(operands[i], sharding.operands[i], mesh, i));
  }
  for (const RankTensors& part : parts) pointers.push_back(&part);
  std::vector<RankTensors> made = run_on_ranks(op, pointers, sharding.results, mesh, context);
  std::vector<GlobalTensor> results;
  for (size_t i = 0; i < made.size(); ++i) {
    results.push_back(assemble_tensor(op.results[i], made[i], sharding.results[i], mesh));
  }
  return results;
}

std::vector<GlobalTensor> run_unsharded(const TypedOp& op, std::span<const GlobalTensor> operands,
                                        StepContext context) {
  NodeSharding sharding{std::vector<TensorSharding>(op.operands.size()),
                        std::vector<TensorSharding>(op.results.size())};
  return run_sharded(op, operands, sharding, DeviceMesh(), context);
}

}  // namespace tpc::testing
