// New values of many parameters, copied to where the parameters lie.
#include "runtime/cuda/device_table.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/tensor_chunks.h"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// Sizes count 2 bytes, which every type of element is a multiple of.
struct CopiedTensor {
  const uint16_t* from;
  uint16_t* to;
  int64_t size;
  bool packed;
};

__global__ void __launch_bounds__(kThreads) update_chunks(const CopiedTensor* tensors, const Chunk* chunks) {
  const Chunk chunk = chunks[blockIdx.x];
  const CopiedTensor tensor = tensors[chunk.tensor];
  const int64_t begin = chunk.index * kChunkSize;
  const int64_t end = min(tensor.size, begin + kChunkSize);
  for_each_pack<8>(begin, end, tensor.packed, [&](auto pack, int64_t i) {
    store_pack(tensor.to + i, load_pack<decltype(pack)::kSize>(tensor.from + i));
  });
}

}  // namespace

std::unique_ptr<Kernel> prepare_update_group(std::span<const LocalStep> steps, DeviceQueue& queue) {
  std::vector<CopiedTensor> tensors;
  std::vector<int64_t> sizes;
  for (const LocalStep& step : steps) {
    const LocalTensor& to = step.operands[0];
    const LocalTensor& from = step.operands[1];
    TPC_CHECK(to.type.dtype == from.type.dtype, "an update of {} by {}", to_string(to.type), to_string(from.type));
    // The optimizer has written over the parameter.
    if (to.data == from.data) continue;
    sizes.push_back(to.num_bytes() / static_cast<int64_t>(sizeof(uint16_t)));
    tensors.push_back({.from = static_cast<const uint16_t*>(from.data),
                       .to = static_cast<uint16_t*>(to.data),
                       .size = sizes.back(),
                       .packed = are_packed(step.operands)});
  }
  const std::vector<Chunk> chunks = chunks_of(sizes);
  return make_kernel([&queue, count = static_cast<int64_t>(chunks.size()),
                      tensor_table = DeviceTable<CopiedTensor>(tensors, queue),
                      chunk_table = DeviceTable<Chunk>(chunks, queue)] {
    if (count == 0) return;
    launch("update_chunks", update_chunks, {.blocks = count, .threads = gpu::block_threads(kThreads)}, queue,
           tensor_table.data(), chunk_table.data());
  });
}

}  // namespace tpc::cuda
