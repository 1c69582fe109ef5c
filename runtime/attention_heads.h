/// What the attention kernels of every device share: where the heads of a rank lie, and how many keys a query sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/lowering/local_step.h"

namespace tpc {

/// Sizes and strides of q[b,s,a,d] and k[b,t,g,d] on this rank.
struct AttentionHeads {
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t keys = 0;
  int64_t kv_heads = 0;
  /// Global: query heads of one kv head; first query head, first kv head and first query of this rank.
  int64_t group = 1;
  int64_t first_head = 0;
  int64_t first_kv_head = 0;
  /// Query i (local) sees keys [0, i + first_limit) when causal.
  int64_t first_limit = 0;
  bool causal = false;
  float scale = 1;

  AttentionHeads(const Attributes& attributes, const LocalTensor& q, const LocalTensor& k)
      : batch(q.region.dims[0].size()),
        queries(q.region.dims[1].size()),
        heads(q.region.dims[2].size()),
        head_dim(q.region.dims[3].size()),
        keys(k.region.dims[1].size()),
        kv_heads(k.region.dims[2].size()),
        group(q.type.shape[2] / k.type.shape[2]),
        first_head(q.region.dims[2].begin),
        first_kv_head(k.region.dims[2].begin),
        first_limit(q.region.dims[1].begin + k.type.shape[1] - q.type.shape[1] + 1),
        causal(attributes.get_bool("causal")),
        scale(static_cast<float>(attributes.get_double("scale"))) {}

  int64_t query_stride() const { return heads * head_dim; }
  int64_t key_stride() const { return kv_heads * head_dim; }
  int64_t query_offset(int64_t b, int64_t i, int64_t head) const {
    return ((b * queries + i) * heads + head) * head_dim;
  }
  int64_t key_offset(int64_t b, int64_t kv_head) const { return (b * keys * kv_heads + kv_head) * head_dim; }
  int64_t kv_head_of(int64_t head) const { return (first_head + head) / group - first_kv_head; }
  /// Keys that query i sees.
  int64_t num_seen(int64_t i) const { return causal ? std::min(keys, i + first_limit) : keys; }

  /// Operations of one query head, for deciding on threads.
  int64_t work_of_head() const { return queries * keys * (head_dim + 8); }
};

}  // namespace tpc
