/// What a plan runs on.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cuda/cudnn/attention_graph.h"
#include "runtime/cuda/cudnn/descriptor.h"

namespace tpc::cuda::cudnn {

/// A tensor's address on the device, or a value's on the host.
struct BoundSlot {
  Slot slot = Slot::kQ;
  const void* data = nullptr;
};

/// Values of the host stay where they are as long as the pack is run. Throws CudnnError.
Descriptor make_variant_pack(const Library& library, const std::vector<BoundSlot>& slots, void* workspace);

/// Values of the host that attention's graphs take.
struct HostValues {
  explicit HostValues(const CudnnAttention& asked);

  float scale = 1;
  float one = 1;
  float minus_infinity = 0;
  int32_t num_queries = 0;
  int32_t num_keys = 0;

  /// Those that the graph of `asked` has.
  void bind(const CudnnAttention& asked, std::vector<BoundSlot>& slots) const;
};

/// Addresses of a step's tensors; statistics are [batch, heads, queries]. Of forward only q, k, v, o and lse.
struct AttentionPointers {
  const std::byte* q = nullptr;
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  std::byte* o = nullptr;
  std::byte* lse = nullptr;
  const std::byte* grad = nullptr;
  std::byte* dots = nullptr;  ///< of one part
  std::byte* dq = nullptr;
  std::byte* dk = nullptr;
  std::byte* dv = nullptr;
};

/// The tensors of one part.
std::vector<BoundSlot> bind_part(const CudnnAttention& asked, const AttentionPointers& whole, const CudnnPart& first);

}  // namespace tpc::cuda::cudnn
