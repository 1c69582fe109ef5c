/// Attention as cuDNN is asked for it: what of a step's tensors a graph of operations can say.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/lowering/local_step.h"

namespace tpc {

/// Heads of bf16 q[b,s,a,d], k[b,t,g,d] and v like k, dense on this rank; query head i goes with key head
/// i / (heads / kv_heads).
struct CudnnAttention {
  bool is_grad = false;
  bool causal = false;
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t heads = 0;
  /// Those that some query sees. When causal, query i sees the first keys - queries + i + 1 of them.
  int64_t keys = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  /// Sizes of the tensors. Keys from `keys` on are seen by no query of this rank; heads are fewer in a part of the
  /// work.
  int64_t all_keys = 0;
  int64_t all_heads = 0;
  int64_t all_kv_heads = 0;
  float scale = 1;

  auto operator<=>(const CudnnAttention&) const = default;
};

/// Nothing for other ops, for tensors in f32, heads of more than 128 elements or no multiple of 8, and for query heads
/// of a rank that do not go evenly with its key heads. What is left cuDNN may still refuse.
std::optional<CudnnAttention> cudnn_attention(const LocalStep& step);

/// A gradient that is deterministic holds all scores of the heads that are done at once: the largest even part of the
/// batch, or else of one sample's heads, whose scores take at most 1 GiB; one key head at least. Forward is done whole.
CudnnAttention part_at_once(const CudnnAttention& whole);

/// Bytes that cuDNN 9.19 asks for to do a part of a gradient on a Hopper GPU, but for some lines; forward asks for less
/// than a line.
int64_t gradient_workspace(const CudnnAttention& part);

/// Where a part begins.
struct CudnnPart {
  int64_t sample = 0;
  int64_t head = 0;
  int64_t kv_head = 0;
};

/// The parts that make up the whole.
std::vector<CudnnPart> cudnn_parts(const CudnnAttention& whole, const CudnnAttention& part);

/// Whether cuDNN would be asked for the step.
bool is_cudnn_attention(const LocalStep& step);

}  // namespace tpc
