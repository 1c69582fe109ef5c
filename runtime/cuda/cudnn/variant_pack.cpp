#include "runtime/cuda/cudnn/variant_pack.h"

#include <limits>

namespace tpc::cuda::cudnn {

Descriptor make_variant_pack(const Library& library, const std::vector<BoundSlot>& slots, void* workspace) {
  std::vector<int64_t> ids;
  std::vector<const void*> addresses;
  for (const BoundSlot& slot : slots) {
    ids.push_back(static_cast<int64_t>(slot.slot));
    addresses.push_back(slot.data);
  }
  Descriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(addresses.size()),
           addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("variant pack");
  return pack;
}

HostValues::HostValues(const CudnnAttention& asked)
    : scale(asked.scale),
      minus_infinity(-std::numeric_limits<float>::infinity()),
      num_queries(static_cast<int32_t>(asked.queries)),
      num_keys(static_cast<int32_t>(asked.keys)) {}

void HostValues::bind(const CudnnAttention& asked, std::vector<BoundSlot>& slots) const {
  slots.push_back({Slot::kScale, &scale});
  if (asked.is_grad) slots.push_back({Slot::kOne, &one});
  if (asked.causal) slots.push_back({Slot::kMinusInfinity, &minus_infinity});
  if (!has_shifted_mask(asked)) return;
  slots.push_back({Slot::kNumQueries, &num_queries});
  slots.push_back({Slot::kNumKeys, &num_keys});
}

std::vector<BoundSlot> bind_part(const CudnnAttention& asked, const AttentionPointers& whole, const CudnnPart& first) {
  constexpr int64_t kData = 2;
  constexpr int64_t kStatistic = 4;
  const int64_t query = (first.sample * asked.queries * asked.all_heads + first.head) * asked.head_dim * kData;
  const int64_t key = (first.sample * asked.all_keys * asked.all_kv_heads + first.kv_head) * asked.head_dim * kData;
  const int64_t lse = (first.sample * asked.all_heads + first.head) * asked.queries * kStatistic;
  std::vector<BoundSlot> slots = {{Slot::kQ, whole.q + query},
                                  {Slot::kK, whole.k + key},
                                  {Slot::kV, whole.v + key},
                                  {Slot::kO, whole.o + query},
                                  {Slot::kLse, whole.lse + lse}};
  if (!asked.is_grad) return slots;
  slots.push_back({Slot::kGrad, whole.grad + query});
  slots.push_back({Slot::kDots, whole.dots});
  slots.push_back({Slot::kDq, whole.dq + query});
  slots.push_back({Slot::kDk, whole.dk + key});
  slots.push_back({Slot::kDv, whole.dv + key});
  return slots;
}

}  // namespace tpc::cuda::cudnn
