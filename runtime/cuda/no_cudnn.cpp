// Stands in for the folder cudnn/ where cuDNN's headers are absent.
#include "runtime/cuda/cudnn_attention.h"

namespace tpc::cuda {
namespace {

class NoCudnn final : public CudnnAttentions {
 public:
  std::unique_ptr<Kernel> prepare(const LocalStep& /*step*/) override { return nullptr; }
};

}  // namespace

std::unique_ptr<CudnnAttentions> make_cudnn_attentions(DeviceQueue& /*queue*/) { return std::make_unique<NoCudnn>(); }

}  // namespace tpc::cuda
