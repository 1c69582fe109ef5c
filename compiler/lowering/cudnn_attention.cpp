#include "compiler/lowering/cudnn_attention.h"

#include <algorithm>
#include <span>

namespace tpc {
namespace {

constexpr int64_t kMostElements = 128;
constexpr int64_t kElementUnit = 8;  // 16 bytes
constexpr int64_t kScoreBytes = int64_t{1} << 30;

bool is_usable(const LocalTensor& tensor) {
  constexpr uintptr_t kAlignment = 16;
  return tensor.type.dtype == DType::kBF16 && reinterpret_cast<uintptr_t>(tensor.data) % kAlignment == 0;
}

// Operands and results but lse, which is f32 everywhere.
bool are_usable(const LocalStep& step, bool is_grad) {
  auto operands = std::span(step.operands).first(is_grad ? 5 : 3);
  auto results = std::span(step.results).first(is_grad ? 3 : 1);
  return std::ranges::all_of(operands, is_usable) && std::ranges::all_of(results, is_usable);
}

// Whether query head i of this rank goes with key head i / (heads / kv_heads) of this rank.
bool are_heads_even(const LocalTensor& q, const LocalTensor& k) {
  const Interval& heads = q.region.dims[2];
  const Interval& kv_heads = k.region.dims[2];
  if (heads.size() % kv_heads.size() != 0) return false;
  int64_t group = q.type.shape[2] / k.type.shape[2];
  int64_t local_group = heads.size() / kv_heads.size();
  for (int64_t i = 0; i < heads.size(); ++i) {
    if ((heads.begin + i) / group - kv_heads.begin != i / local_group) return false;
  }
  return true;
}

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// In bf16, of whole tiles.
int64_t score_bytes(const CudnnAttention& asked) {
  return asked.batch * asked.heads * round_up(asked.queries, 64) * round_up(asked.keys, 128) * byte_size(DType::kBF16);
}

}  // namespace

std::optional<CudnnAttention> cudnn_attention(const LocalStep& step) {
  if (step.op != OpKind::kAttention && step.op != OpKind::kAttentionGrad) return std::nullopt;
  CudnnAttention asked;
  asked.is_grad = step.op == OpKind::kAttentionGrad;
  const LocalTensor& q = step.operands[asked.is_grad ? 1 : 0];
  const LocalTensor& k = step.operands[asked.is_grad ? 2 : 1];
  if (!are_usable(step, asked.is_grad)) return std::nullopt;
  if (q.region.num_elements() == 0 || k.region.num_elements() == 0 || !are_heads_even(q, k)) return std::nullopt;
  asked.causal = step.attributes.get_bool("causal");
  asked.scale = static_cast<float>(step.attributes.get_double("scale"));
  asked.batch = q.region.dims[0].size();
  asked.queries = q.region.dims[1].size();
  asked.heads = q.region.dims[2].size();
  asked.head_dim = q.region.dims[3].size();
  asked.kv_heads = k.region.dims[2].size();
  asked.all_keys = k.region.dims[1].size();
  asked.all_heads = asked.heads;
  asked.all_kv_heads = asked.kv_heads;
  // Where a rank has a part of the queries, the last one ends what is seen: the mask reaches from corner to corner.
  int64_t seen_by_last = q.region.dims[1].end + k.type.shape[1] - q.type.shape[1];
  asked.keys = asked.causal ? std::min(asked.all_keys, seen_by_last) : asked.all_keys;
  if (asked.head_dim > kMostElements || asked.head_dim % kElementUnit != 0) return std::nullopt;
  return asked;
}

CudnnAttention part_at_once(const CudnnAttention& whole) {
  CudnnAttention part = whole;
  if (!whole.is_grad) return part;
  while (score_bytes(part) > kScoreBytes && part.batch > 1) {
    do {
      --part.batch;
    } while (whole.batch % part.batch != 0);
  }
  int64_t group = whole.heads / whole.kv_heads;
  while (score_bytes(part) > kScoreBytes && part.kv_heads > 1) {
    do {
      --part.kv_heads;
    } while (whole.kv_heads % part.kv_heads != 0);
    part.heads = part.kv_heads * group;
  }
  return part;
}

int64_t gradient_workspace(const CudnnAttention& part) {
  // Query heads that share a key head have key gradients of their own until they are summed.
  int64_t of_heads = part.heads == part.kv_heads ? 0 : part.batch * part.heads * part.keys * part.head_dim;
  return score_bytes(part) + 2 * of_heads * byte_size(DType::kBF16);
}

std::vector<CudnnPart> cudnn_parts(const CudnnAttention& whole, const CudnnAttention& part) {
  std::vector<CudnnPart> parts;
  for (int64_t sample = 0; sample < whole.batch; sample += part.batch) {
    for (int64_t i = 0; i < whole.kv_heads / part.kv_heads; ++i) {
      parts.push_back({sample, i * part.heads, i * part.kv_heads});
    }
  }
  return parts;
}

bool is_cudnn_attention(const LocalStep& step) { return cudnn_attention(step).has_value(); }

}  // namespace tpc
