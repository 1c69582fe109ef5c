/// What a plan costs: every collective with its reason, totals, and the load of every rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace tpc {

/// The unit of logical volume, b·s·h elements: the result of the first embedding (the residual stream); in a model
/// without one the largest f32 input; else the largest forward activation. b is the batch of one data-parallel replica
/// (the fullest), so that a layer's volume in Phi does not depend on dp.
struct PhiUnit {
  int64_t elements = 1;
  Shape shape;
  Shape whole_shape;  ///< with the batch of all replicas
  std::string tensor;
};

/// One collective step.
struct CollectiveRow {
  int step = 0;
  std::string tensor;  ///< what is moved, by the name that the step before the collective gave it
  std::string layer;   ///< of the step that made the tensor
  std::string block;   ///< see block_of
  Phase phase = Phase::kForward;
  std::string axis;  ///< see axes_name
  OpKind kind = OpKind::kAllReduce;
  DType dtype = DType::kF32;
  int64_t group_size = 1;
  /// Of the tensor that takes part, whole over the group and local on the other axes, at the fullest rank.
  int64_t elements = 0;
  /// Logical volume: 2 * elements for an all_reduce, elements / group_size for an all_to_all, else elements; and in
  /// Phi.
  double volume_elements = 0;
  double volume_phi = 0;
  /// Bytes that a rank receives from its peers: exact, the most and the least of all ranks.
  int64_t received_bytes_max = 0;
  int64_t received_bytes_min = 0;
  /// The ring formula: volume_elements * (n - 1) / n * element size. What every rank receives when all blocks are even.
  double ring_bytes = 0;
  /// On the links that the plan was asked for with (MovePrice); 0 without.
  double seconds = 0;
  std::string why;
};

/// A sum over collectives.
struct VolumeTotal {
  std::string name;
  int64_t collectives = 0;
  double volume_elements = 0;
  double volume_phi = 0;
  /// Received by the rank that receives most of these collectives together.
  int64_t received_bytes = 0;
  /// One after the other.
  double seconds = 0;
};

/// What one rank holds, does and receives in a step.
struct RankLoad {
  int64_t rank = 0;
  std::vector<int64_t> coordinate;
  /// How many ranks it stands for: 1 in a small world, else all that hold equally large blocks.
  int64_t ranks_like_it = 1;
  int64_t parameters = 0;  ///< elements
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_state_bytes = 0;
  int64_t input_bytes = 0;
  /// The most bytes alive at once, apart from the above, and the step at which that is.
  int64_t peak_activation_bytes = 0;
  int peak_step = -1;
  /// Multiply-adds of contractions and attention.
  double multiply_adds = 0;
  int64_t received_bytes = 0;
};

/// How unevenly a quantity lies: the fullest rank against the mean.
struct Imbalance {
  std::string quantity;
  double most = 0;
  double least = 0;
  double mean = 0;
  int64_t fullest_rank = 0;
  double ratio() const { return mean > 0 ? most / mean : 1.0; }
  /// Worth telling: more than 0.05 % above the mean.
  bool is_notable() const { return ratio() > 1.0005; }
};

/// b·s against h: what splitting the batch and what splitting the layers moves, as logical volumes.
struct DataAgainstTensor {
  int64_t tokens = 0;  ///< b·s, of all replicas
  int64_t hidden = 0;  ///< h
  /// Twice the trainable parameters: the all-reduce of all gradients.
  double data_elements = 0;
  /// Collectives on axes other than dp, as planned; 0 when there are none.
  double tensor_elements = 0;
  /// b·s at which both are equal; 0 when there is no tensor parallelism to compare.
  double equal_tokens = 0;
};

/// What the rank that needs most takes of its GPU's memory with --device cuda, apart from what CUDA and NCCL take for
/// themselves.
struct DeviceMemoryNeed {
  int64_t rank = 0;
  int64_t arena_bytes = 0;
  /// Working memory of kernels and products, and of collectives.
  int64_t compute_bytes = 0;
  int64_t communication_bytes = 0;
  int64_t total() const { return arena_bytes + compute_bytes + communication_bytes; }
};

struct Report {
  std::string model;
  DeviceMesh mesh;
  std::map<std::string, std::string> options;
  std::optional<SearchProof> proof;
  Precision precision;
  /// The plan knows its links: `seconds` say something.
  bool has_links = false;
  int64_t world_size = 1;
  PhiUnit phi;
  std::vector<CollectiveRow> collectives;  ///< in execution order
  /// In order of first appearance.
  std::vector<VolumeTotal> by_layer;
  std::vector<VolumeTotal> by_block;
  std::vector<VolumeTotal> by_phase;
  std::vector<VolumeTotal> by_axis;
  std::vector<VolumeTotal> by_kind;
  VolumeTotal step;
  /// Every rank of a world up to 64; of a larger one those where an extreme is reached.
  std::vector<RankLoad> ranks;
  bool has_all_ranks = true;
  std::vector<Imbalance> imbalances;
  std::optional<DataAgainstTensor> data_against_tensor;
  int64_t arena_bytes = 0;  ///< the same on every rank
  int64_t persistent_bytes = 0;
  /// See device_memory_need; make_report leaves it out.
  std::optional<DeviceMemoryNeed> device_memory;
};

Report make_report(const Plan& plan);

/// For people. Blocks that differ by their number only are told once unless `all_collectives`.
std::string report_text(const Report& report, bool all_collectives = false);
/// For programs: everything, in exact numbers; format "tpc-report", version 1.
std::string report_json(const Report& report);
/// One line a collective, with a header line.
std::string report_csv(const Report& report);

}  // namespace tpc
