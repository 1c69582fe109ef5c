// Dropout: an element's fate is a pure function of (seed, stream, step, global index), the same for any mesh and
// device.
#include "compiler/core/philox.h"
#include "runtime/cuda/kernel_table.h"
#include "runtime/cuda/kernels/float_types.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/packs.cuh"
#include "runtime/cuda/kernels/philox.cuh"

namespace tpc::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kElementsOfBlock = 4096;
constexpr int kMaxLoops = 8;
/// Elements of a thread at a time: mostly one block of random words.
constexpr int kWords = 4;

/// A part of a tensor as runs of elements that follow each other globally, too.
struct Runs {
  int64_t length;
  int64_t base;  // global index of the first element
  struct Loop {
    int64_t count;
    int64_t stride;    // global
  } loops[kMaxLoops];  // over runs, innermost first
  int num_loops;
};

struct DropoutRule {
  uint64_t threshold;  // the least word that keeps its element
  float factor;
};

__device__ __forceinline__ int64_t global_index_of_run(const Runs& runs, int64_t run) {
  int64_t index = runs.base;
  for (int i = 0; i < runs.num_loops; ++i) {
    const int64_t rest = run / runs.loops[i].count;
    index += (run - rest * runs.loops[i].count) * runs.loops[i].stride;
    run = rest;
  }
  return index;
}

// y may lie over x.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout(const __grid_constant__ StreamName name, const StepContext* context, const __grid_constant__ Runs runs,
            DropoutRule rule, int64_t size, const T* x, T* y) {
  GPU_SHARED(DevicePhiloxKey, shared_key, 1);
  if (threadIdx.x == 0) shared_key[0] = philox_key_of(context->seed, name);
  __syncthreads();
  const DevicePhiloxKey key = shared_key[0];
  const uint64_t stream = context->step;
  const int64_t begin = blockIdx.x * kElementsOfBlock;
  const int64_t end = min(size, begin + kElementsOfBlock);
  for (int64_t i = begin + threadIdx.x * kWords; i < end; i += blockDim.x * kWords) {
    const int64_t last = min(end, i + kWords);
    int64_t run = i / runs.length;
    int64_t left = runs.length - (i - run * runs.length);
    uint64_t index = static_cast<uint64_t>(global_index_of_run(runs, run) + (i - run * runs.length));
    PhiloxBlock words = philox_block(key, stream, index / kWords);
    for (int64_t j = i; j < last; ++j) {
      const uint32_t word = words[index % kWords];
      y[j] = from_float<T>(word >= rule.threshold ? to_float(x[j]) * rule.factor : 0.0f);
      if (j + 1 == last) break;
      const uint64_t block = index / kWords;
      if (--left == 0) {
        ++run;
        left = runs.length;
        index = static_cast<uint64_t>(global_index_of_run(runs, run));
      } else {
        ++index;
      }
      if (index / kWords != block) words = philox_block(key, stream, index / kWords);
    }
  }
}

Runs runs_of(const LocalTensor& tensor) {
  const Region& region = tensor.region;
  const Shape strides = row_major_strides(tensor.type.shape);
  Runs runs = {};
  runs.length = 1;
  bool in_run = true;
  for (size_t d = region.dims.size(); d-- > 0;) {
    const int64_t count = region.dims[d].size();
    runs.base += region.dims[d].begin * strides[d];
    if (in_run) {
      runs.length *= count;
      in_run = count == tensor.type.shape[d];
    } else if (count > 1) {
      TPC_CHECK(runs.num_loops < kMaxLoops, "dropout of {}", to_string(tensor.type));
      runs.loops[runs.num_loops++] = {count, strides[d]};
    }
  }
  return runs;
}

DropoutRule rule_of(double rate) {
  uint64_t low = 0;
  uint64_t high = uint64_t{1} << 32;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (uniform_from_word(static_cast<uint32_t>(middle)) >= rate) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {low, static_cast<float>(1.0 / (1.0 - rate))};
}

}  // namespace

std::unique_ptr<Kernel> prepare_dropout(const LocalStep& step, DeviceQueue& queue) {
  const StreamName name("dropout/" + step.attributes.get_string("stream"));
  const DropoutRule rule = rule_of(step.attributes.get_double("rate"));
  const Runs runs = runs_of(step.operands[0]);
  const int64_t size = step.operands[0].region.num_elements();
  return with_float_type(step.operands[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const T* x = data_of<T>(step.operands[0]);
    T* y = data_of<T>(step.results[0]);
    return make_kernel([=, &queue] {
      launch("dropout", dropout<T>,
             {.blocks = ceil_div(size, kElementsOfBlock), .threads = gpu::block_threads(kThreads)}, queue, name,
             queue.context(), runs, rule, size, x, y);
    });
  });
}

}  // namespace tpc::cuda
