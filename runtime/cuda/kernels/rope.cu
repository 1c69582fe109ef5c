// Rotary position embedding: a block turns all heads of one token, with sines and cosines that it makes once.
#include <cmath>
#include <vector>

#include "runtime/cuda/device_table.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 128;

/// Heads of one token, head_dim elements each; the first 2 * pairs of a head are turned.
struct RopeShape {
  int64_t positions;
  int64_t first_position;
  int heads;
  int head_dim;
  int pairs;
  bool interleaved;
};

// y may lie over x. `turns`: half turns a position of each pair, negative for the inverse; angles are reduced in
// double, since positions grow beyond what the fraction of a float can tell.
template <class T>
__global__ void __launch_bounds__(kThreads) rope(const T* x, T* y, const double* turns, RopeShape shape) {
  GPU_SHARED_DYN(float, cosines);
  float* sines = cosines + shape.pairs;
  const int64_t token = blockIdx.x;
  const double position = static_cast<double>(shape.first_position + token % shape.positions);
  for (int i = threadIdx.x; i < shape.pairs; i += blockDim.x) {
    const double angle = position * turns[i];
    sincospif(static_cast<float>(angle - 2.0 * rint(0.5 * angle)), sines + i, cosines + i);
  }
  __syncthreads();

  const T* from = x + token * shape.heads * shape.head_dim;
  T* to = y + token * shape.heads * shape.head_dim;
  const int rest = shape.head_dim - 2 * shape.pairs;
  const int work_of_head = shape.pairs + rest;  // pairs first, then what is not turned
  for (int work = threadIdx.x; work < shape.heads * work_of_head; work += blockDim.x) {
    const int head = work / work_of_head;
    const int i = work - head * work_of_head;
    const int start = head * shape.head_dim;
    if (i >= shape.pairs) {
      to[start + shape.pairs + i] = from[start + shape.pairs + i];
      continue;
    }
    const int first = start + (shape.interleaved ? 2 * i : i);
    const int second = first + (shape.interleaved ? 1 : shape.pairs);
    const float u = to_float(from[first]);
    const float w = to_float(from[second]);
    to[first] = from_float<T>(u * cosines[i] - w * sines[i]);
    to[second] = from_float<T>(w * cosines[i] + u * sines[i]);
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_rope(const LocalStep& step, DeviceQueue& queue) {
  const Region& region = step.operands[0].region;
  const int64_t rotary_dim = step.attributes.get_int("rotary_dim");
  const double theta = step.attributes.get_double("theta");
  const double direction = step.attributes.get_bool("inverse") ? -1.0 : 1.0;
  std::vector<double> turns(static_cast<size_t>(rotary_dim / 2));
  for (size_t i = 0; i < turns.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim);
    turns[i] = direction * std::pow(theta, exponent) / M_PI;
  }
  const RopeShape shape = {.positions = region.dims[1].size(),
                           .first_position = region.dims[1].begin,
                           .heads = static_cast<int>(region.dims[2].size()),
                           .head_dim = static_cast<int>(region.dims[3].size()),
                           .pairs = static_cast<int>(rotary_dim / 2),
                           .interleaved = step.attributes.get_bool("interleaved")};
  const LaunchShape blocks = {.blocks = region.dims[0].size() * shape.positions,
                              .threads = gpu::block_threads(kThreads),
                              .shared_bytes = 2 * turns.size() * sizeof(float)};
  TPC_CHECK(blocks.shared_bytes <= 48 << 10, "rope turns {} elements of a head", rotary_dim);
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* x = data_of<T>(step.operands[0]);
    T* y = data_of<T>(step.results[0]);
    return make_kernel([=, &queue, table = DeviceTable<double>(turns, queue)] {
      launch("rope", rope<T>, blocks, queue, x, y, table.data(), shape);
    });
  });
}

}  // namespace tpc::cuda
