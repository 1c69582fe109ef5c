#include "tests/fake_cuda/nccl_operation.h"

#include <cuda_bf16.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

template <class T>
T load(const std::byte* data, uint64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
  // Not a number stays so in a maximum.
  if (a != a || b != b) return a != a ? a : b;
  switch (op) {
    case ncclSum:
    case ncclAvg:
      return static_cast<T>(a + b);
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return a < b ? b : a;
    case ncclMin:
      return b < a ? b : a;
    default:
      die("NCCL: reduction {} is none that the fake knows", static_cast<int>(op));
  }
}

// Arithmetic in A, elements stored as T.
template <class T, class A, class ToA, class ToT>
void reduce_as(ncclRedOp_t op, const std::byte* const* inputs, int num_inputs, std::byte* out, uint64_t count, ToA to_a,
               ToT to_t) {
  for (uint64_t i = 0; i < count; ++i) {
    A value = to_a(load<T>(inputs[0], i));
    for (int rank = 1; rank < num_inputs; ++rank) value = combine<A>(op, value, to_a(load<T>(inputs[rank], i)));
    if (op == ncclAvg) value = static_cast<A>(value / static_cast<A>(num_inputs));
    T stored = to_t(value);
    std::memcpy(out + i * sizeof(T), &stored, sizeof(T));
  }
}

template <class T>
void reduce_plain(ncclRedOp_t op, const std::byte* const* inputs, int num_inputs, std::byte* out, uint64_t count) {
  auto same = [](T value) { return value; };
  reduce_as<T, T>(op, inputs, num_inputs, out, count, same, same);
}

}  // namespace

const char* call_name(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "ncclAllReduce";
    case OperationKind::kReduce:
      return "ncclReduce";
    case OperationKind::kBroadcast:
      return "ncclBroadcast";
    case OperationKind::kAllGather:
      return "ncclAllGather";
    case OperationKind::kReduceScatter:
      return "ncclReduceScatter";
    case OperationKind::kAllToAll:
      return "ncclAlltoAll";
    case OperationKind::kSend:
      return "ncclSend";
    case OperationKind::kReceive:
      return "ncclRecv";
  }
  return "";
}

bool is_collective(OperationKind kind) { return kind != OperationKind::kSend && kind != OperationKind::kReceive; }

uint64_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::string type_name(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "i8";
    case ncclUint8:
      return "u8";
    case ncclBfloat16:
      return "bf16";
    case ncclInt32:
      return "i32";
    case ncclUint32:
      return "u32";
    case ncclFloat32:
      return "f32";
    case ncclInt64:
      return "i64";
    case ncclUint64:
      return "u64";
    case ncclFloat64:
      return "f64";
    default:
      return fmt::format("type {}", static_cast<int>(type));
  }
}

Announced announce(const Operation& operation, uint64_t batch) {
  return {static_cast<int32_t>(operation.kind), operation.type, operation.op, operation.root, operation.count, batch};
}

std::string to_string(const Announced& announced) {
  auto kind = static_cast<OperationKind>(announced.kind);
  std::string text = fmt::format("{} of {} {}", call_name(kind), announced.count,
                                 type_name(static_cast<ncclDataType_t>(announced.type)));
  constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg"};
  bool reduces =
      kind == OperationKind::kAllReduce || kind == OperationKind::kReduce || kind == OperationKind::kReduceScatter;
  if (reduces && announced.op >= 0 && announced.op < 5) text += fmt::format(" ({})", kReductions[announced.op]);
  if (kind == OperationKind::kBroadcast || kind == OperationKind::kReduce)
    text += fmt::format(" (root {})", announced.root);
  return text;
}

void reduce(ncclDataType_t type, ncclRedOp_t op, const std::byte* const* inputs, int num_inputs, std::byte* out,
            uint64_t count) {
  switch (type) {
    case ncclFloat32:
      return reduce_plain<float>(op, inputs, num_inputs, out, count);
    case ncclFloat64:
      return reduce_plain<double>(op, inputs, num_inputs, out, count);
    case ncclInt8:
      return reduce_plain<int8_t>(op, inputs, num_inputs, out, count);
    case ncclUint8:
      return reduce_plain<uint8_t>(op, inputs, num_inputs, out, count);
    case ncclInt32:
      return reduce_plain<int32_t>(op, inputs, num_inputs, out, count);
    case ncclUint32:
      return reduce_plain<uint32_t>(op, inputs, num_inputs, out, count);
    case ncclInt64:
      return reduce_plain<int64_t>(op, inputs, num_inputs, out, count);
    case ncclUint64:
      return reduce_plain<uint64_t>(op, inputs, num_inputs, out, count);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16, float>(
          op, inputs, num_inputs, out, count, [](__nv_bfloat16 value) { return __bfloat162float(value); },
          [](float value) { return __float2bfloat16_rn(value); });
    default:
      die("NCCL: {} is no type that the fake knows", type_name(type));
  }
}

}  // namespace fake_cuda
