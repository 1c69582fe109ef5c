/// One call of NCCL that moves data.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

#include "tests/fake_cuda/meeting_place.h"

namespace fake_cuda {

enum class OperationKind : int32_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
};

struct Operation {
  OperationKind kind = OperationKind::kAllReduce;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  uint64_t count = 0;  ///< as the call counts: of one rank's part
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;  ///< the peer of a send or receive
};

const char* call_name(OperationKind kind);
bool is_collective(OperationKind kind);
/// Bytes of an element; 0 for a type that the fake does not know.
uint64_t size_of(ncclDataType_t type);
std::string type_name(ncclDataType_t type);

Announced announce(const Operation& operation, uint64_t batch);
/// "ncclAllReduce of 12 f32 (sum)"
std::string to_string(const Announced& announced);

/// Elements [0, count) of all inputs, in the order of the ranks: in f32 for f32 and bf16 (rounded once), else in the
/// type. The average is the sum divided by the number of ranks.
void reduce(ncclDataType_t type, ncclRedOp_t op, const std::byte* const* inputs, int num_inputs, std::byte* out,
            uint64_t count);

}  // namespace fake_cuda
