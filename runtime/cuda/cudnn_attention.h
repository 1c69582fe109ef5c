/// Attention by cuDNN, where that is installed.
#pragma once

#include <memory>

#include "runtime/backend.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// What one rank has of cuDNN: layers whose attention is alike share what the library has compiled.
class CudnnAttentions {
 public:
  virtual ~CudnnAttentions() = default;
  /// nullptr when cuDNN is not asked for such a step (see is_cudnn_attention), is absent or too old, or refuses it: our
  /// own kernel serves then. The library is opened by the first step that it is asked for.
  virtual std::unique_ptr<Kernel> prepare(const LocalStep& step) = 0;
};

/// The queue outlives it. In a build without cuDNN's headers it refuses everything.
std::unique_ptr<CudnnAttentions> make_cudnn_attentions(DeviceQueue& queue);

}  // namespace tpc::cuda
