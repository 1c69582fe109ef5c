/// The plan: one SPMD program and its mesh. What rank r does is a pure function of (plan, r).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/core/shape.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/graph.h"
#include "compiler/sharding/collective.h"

namespace tpc {

/// Offsets in the arena are multiples of this many bytes.
inline constexpr int64_t kBufferAlignment = 64;

/// kWeight: a parameter in the type that the step computes in, made of it anew in every step.
enum class TensorRole : uint8_t { kInput, kParameter, kState, kActivation, kGradient, kOther, kWeight };

/// "input", "parameter", "state", "activation", "gradient", "other", "weight".
std::string_view to_string(TensorRole role);

struct PlanTensor {
  std::string name;
  TensorType type;
  TensorSharding sharding;
  TensorRole role = TensorRole::kOther;
  /// Offset in the rank's arena, the same on every rank; the buffer is sized for the fullest rank.
  int64_t offset = 0;
  int64_t bytes = 0;
  /// Of the leaf that makes a persistent tensor: shape and dtype; of a parameter also how it starts ({"init": "normal",
  /// "std": 0.02}, ...) and "trainable".
  Attributes attributes;
  bool operator==(const PlanTensor&) const = default;
};

struct PlanStep {
  OpKind op = OpKind::kAdd;
  std::vector<int> operands;  ///< indices into Plan::tensors
  std::vector<int> results;
  Attributes attributes;
  Phase phase = Phase::kForward;
  std::string layer;
  std::string origin;
  std::string why;
  bool operator==(const PlanStep&) const = default;
};

struct Plan {
  static constexpr int kVersion = 1;

  std::string model_name;
  /// The source model, normalised (sizes overridden on the command line are written in), as JSON text.
  std::string model_json;
  /// How the plan was asked for: {"strategy": "megatron", "mesh": "tp=2", ...}.
  std::map<std::string, std::string> options;
  DeviceMesh mesh;
  /// Of a strategy that searches.
  std::optional<SearchProof> proof;
  std::vector<PlanTensor> tensors;
  /// In execution order. Steps read tensors that an earlier step wrote, or that persist (inputs, parameters, states).
  std::vector<PlanStep> steps;
  /// Named results of a step: "loss", and "grad_norm" when gradients are clipped. Indices into tensors.
  std::map<std::string, int> outputs;
  /// Bytes of a rank's arena, and of its persistent part (inputs, parameters, states) at the start of it.
  int64_t arena_bytes = 0;
  int64_t persistent_bytes = 0;
  bool operator==(const Plan&) const = default;
};

/// Inputs, parameters and states keep their value from step to step.
bool persists(TensorRole role);

/// For every tensor the index of the step that makes it (-1: none, it persists).
std::vector<int> producers(const Plan& plan);

/// The move that a collective or local-move step performs.
Move step_move(const Plan& plan, const PlanStep& step);
/// True for all_reduce, all_gather, reduce_scatter, all_to_all.
bool is_collective(OpKind op);
/// True for collectives and for local_slice, mask and zero_pad.
bool is_move(OpKind op);

}  // namespace tpc
