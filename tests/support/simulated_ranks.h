/// The ranks of a small mesh, simulated in one thread and in double: every rank holds its region of every tensor, ops
/// run by their reference kernel on it, and collectives read the peers' regions. What a program on shards means,
/// without any of the code that will run it.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/sharding/collective.h"
#include "tests/support/global_tensor.h"

namespace tpc::testing {

/// The simulated ranks contradict each other: replicas that differ, a part that no rank has.
class SimulationError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LocalTensor {
  Region region;
  std::vector<double> data;
};

/// One tensor on every rank, by rank.
using RankTensors = std::vector<LocalTensor>;

/// Cuts a tensor into the ranks' parts. Partial axes get random contributions (of `seed`) that sum to the tensor, or
/// have it as their maximum; each of these ranks holds the whole of the region that the other axes leave.
RankTensors shard_tensor(const GlobalTensor& tensor, const TensorSharding& sharding, const DeviceMesh& mesh,
                         uint64_t seed = 0);

/// The tensor that the parts stand for: blocks placed, Partial axes summed (or the maximum taken). Throws
/// SimulationError when ranks that should be replicas differ in any bit, or a part does not have its region.
GlobalTensor assemble_tensor(const TensorType& type, const RankTensors& parts, const TensorSharding& sharding,
                             const DeviceMesh& mesh);

/// The move of collective.h: each rank reads its own part and those of its group. Throws SimulationError when the
/// group does not hold what a rank should have afterwards.
RankTensors apply_move(const Move& move, const Shape& shape, const RankTensors& parts, const DeviceMesh& mesh);

/// An op with its types; `results` as infer_types says.
struct TypedOp {
  const OpDef& op;
  const Attributes& attributes;
  std::vector<TensorType> operands;
  std::vector<TensorType> results;

  OpQuery query() const { return {attributes, operands, results}; }
};

/// Infers the result types.
TypedOp typed_op(const OpDef& op, const Attributes& attributes, std::vector<TensorType> operands);

/// Runs the reference kernel on every rank. Results start as NaN, so that what the kernel leaves out is seen.
std::vector<RankTensors> run_on_ranks(const TypedOp& op, std::span<const RankTensors* const> operands,
                                      std::span<const TensorSharding> results, const DeviceMesh& mesh,
                                      StepContext context = {});

/// shard_tensor, run_on_ranks and assemble_tensor: what the op computes under these shardings.
std::vector<GlobalTensor> run_sharded(const TypedOp& op, std::span<const GlobalTensor> operands,
                                      const NodeSharding& sharding, const DeviceMesh& mesh, StepContext context = {});

/// What the op computes on one rank.
std::vector<GlobalTensor> run_unsharded(const TypedOp& op, std::span<const GlobalTensor> operands,
                                        StepContext context = {});

}  // namespace tpc::testing
