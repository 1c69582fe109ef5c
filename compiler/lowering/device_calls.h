/// The calls of cuBLASLt, NCCL and the CUDA runtime, and the kernels, that a rank's training step is on a GPU. A pure
/// function of (plan, rank), from the lowering that the backend executes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/lowering/collective_calls.h"
#include "compiler/lowering/matmul.h"
#include "compiler/lowering/workspace.h"

namespace tpc {

enum class CallPlace : uint8_t {
  kArena,
  kWorkspace,  ///< the working memory of the call's queue
  kContext,    ///< what kernels read of the training step: its number, the seed
  kCounter,    ///< the numbers 1, 2, ..., on the device
  kHost
};

/// "arena", "workspace", "context", "counter", "host".
std::string_view to_string(CallPlace place);

/// What a call reads or writes: a dense tensor of this rank, or a part of one.
struct CallTensor {
  std::string role;  ///< "a", "b", "d", "bias", "aux" of products; else ""
  std::string name;  ///< of the plan's tensor; "": none
  /// With the local shape; of a part of a tensor its elements in one dimension. None: no tensor.
  std::optional<TensorType> type;
  CallPlace place = CallPlace::kArena;
  int64_t offset = 0;  ///< bytes
  bool operator==(const CallTensor&) const = default;
};

enum class DeviceCallKind : uint8_t {
  kRecord,      ///< cudaEventRecord
  kWait,        ///< cudaStreamWaitEvent
  kMatmul,      ///< cublasLtMatmul
  kKernel,      ///< `launches` kernels of this repository
  kCopy,        ///< cudaMemcpyAsync
  kFill,        ///< cudaMemsetAsync, with zero
  kCollective,  ///< a function of NCCL
};

/// "record", "wait", "matmul", "kernel", "copy", "fill", "collective".
std::string_view to_string(DeviceCallKind kind);

/// A function of NCCL, by its part in a collective.
struct NcclCall {
  CollectiveCallKind kind = CollectiveCallKind::kAllReduce;
  int64_t count = 0;  ///< elements, as NCCL counts them; 0 for starts and ends of groups
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  std::vector<int64_t> ranks;  ///< of the communicator, in its order
  int64_t peer = -1;           ///< of sends and receives: a rank
};

struct DeviceCall {
  DeviceCallKind kind = DeviceCallKind::kKernel;
  DeviceQueueKind queue = DeviceQueueKind::kCompute;
  /// The function that is called; of kernels the op, or what they do for a call ("pack", "unpack", "reduce_pieces").
  std::string name;
  std::vector<CallTensor> reads;
  std::vector<CallTensor> writes;
  int64_t bytes = 0;      ///< copied or filled
  int launches = 0;       ///< of kKernel
  int64_t num_steps = 1;  ///< of kKernel: the steps of the plan that it does together
  int event = -1;         ///< of kRecord and kWait
  std::optional<Matmul> matmul;
  int64_t workspace = 0;  ///< bytes, of kMatmul
  std::optional<NcclCall> nccl;
};

/// What belongs together: the calls for some steps of the plan.
struct DeviceUnit {
  /// [first, end) of the plan's steps; -1, -1: what is issued around them.
  int first = -1;
  int end = -1;
  /// 0: everything before something that persists changes, 1: the rest; each is a CUDA graph. -1: before both.
  int segment = -1;
  std::string layer;
  /// By a collective.
  int64_t received_bytes = 0;
  std::vector<DeviceCall> calls;
};

struct CallTotals {
  int64_t kernels = 0;  ///< launches
  int64_t matmuls = 0;
  double matmul_flops = 0;
  int64_t collective_calls = 0;  ///< functions of NCCL that move data
  int64_t received_bytes = 0;
  int64_t copies = 0;
  int64_t fills = 0;
  int64_t records = 0;
  int64_t waits = 0;
};

struct DeviceCalls {
  int64_t rank = 0;
  std::vector<DeviceUnit> units;  ///< in the order of issue
  CallTotals totals;
  int64_t arena_bytes = 0;
  DeviceWorkspace workspace;
};

/// `program` is one of `plan`. As in the first training step; later ones replay it. Products are those that cuBLASLt is
/// asked for first: where it has none with an epilogue, the steps are issued one by one.
DeviceCalls device_calls(const Plan& plan, const RankPlan& program);

}  // namespace tpc
