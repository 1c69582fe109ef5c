// What tprun loads with dlopen for --device cuda.
#include <fmt/format.h>
#include <nccl.h>

#include <utility>

#include "compiler/core/check.h"
#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/check_nccl.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/find_devices.h"
#include "runtime/cuda/nccl_communicator.h"
#include "runtime/device_module.h"

namespace tpc::cuda {
namespace {

// A world of one rank has nobody to speak to.
class LoneCommunicator final : public Communicator {
 public:
  std::unique_ptr<Collective> prepare(const CollectiveStep& step) override {
    TPC_UNREACHABLE("a collective of \"{}\" in a world of one rank", step.name);
  }
  void use_memory(void* /*data*/, int64_t /*bytes*/) override {}
  void forget_memory() override {}
  void abort() override {}
};

class CudaModule final : public DeviceModule {
 public:
  int num_devices() override { return find_devices(); }

  std::string communicator_version() override {
    int version = 0;
    TPC_NCCL(ncclGetVersion(&version));
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  std::string make_meeting() override { return make_unique_id(); }

  RankDevice open(const DeviceSettings& settings) override {
    require_usable(settings.device);
    TPC_CUDA(cudaSetDevice(settings.device));
    auto backend = std::make_unique<CudaBackend>(
        CudaOptions{.matmul = {settings.tf32, settings.tune},
                    .use_graphs = settings.use_graphs,
                    .use_cudnn = settings.use_cudnn,
                    .symmetric_memory = settings.symmetric_memory && settings.world_size > 1});
    if (settings.world_size == 1) {
      if (settings.check_run) backend->set_poll([check_run = settings.check_run](auto /*since*/) { check_run(); });
      return {std::move(backend), std::make_unique<LoneCommunicator>()};
    }
    NcclOptions options;
    options.rank = settings.rank;
    options.world_size = settings.world_size;
    options.unique_id = settings.meeting;
    options.timeout = settings.timeout;
    options.symmetric_memory = settings.symmetric_memory;
    options.check_run = settings.check_run;
    auto communicator = std::make_unique<NcclCommunicator>(std::move(options), backend->communication());
    // NCCL's own buffers are not the plan's.
    backend->count_memory_from_here();
    backend->set_poll([communicator = communicator.get()](auto since) { communicator->poll(since); });
    return {std::move(backend), std::move(communicator)};
  }
};

}  // namespace
}  // namespace tpc::cuda

extern "C" __attribute__((visibility("default"))) tpc::DeviceModule* tpc_device_module(int version) {
  static tpc::cuda::CudaModule module;
  return version == tpc::kDeviceModuleVersion ? &module : nullptr;
}
