/// A step as one rank executes it: tensors with their regions and addresses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/core/bfloat16.h"
#include "compiler/ir/attributes.h"
#include "compiler/ops/op_def.h"

namespace tpc {

/// The part `region` of a tensor of global type `type`, dense and row-major at `data` (float, int32_t or BFloat16).
struct LocalTensor {
  TensorType type;
  Region region;
  void* data = nullptr;

  float* f32() const { return static_cast<float*>(data); }
  BFloat16* bf16() const { return static_cast<BFloat16*>(data); }
  int32_t* i32() const { return static_cast<int32_t*>(data); }

  int64_t num_bytes() const { return region.num_elements() * byte_size(type.dtype); }
  /// Its bytes are the addresses from begin() to end().
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data); }
  uintptr_t end() const { return begin() + static_cast<uintptr_t>(num_bytes()); }
};

/// Have bytes in common.
inline bool overlap(const LocalTensor& a, const LocalTensor& b) { return a.begin() < b.end() && b.begin() < a.end(); }

struct LocalStep {
  OpKind op = OpKind::kAdd;
  Attributes attributes;
  std::vector<LocalTensor> operands;
  std::vector<LocalTensor> results;
  /// The layer, for messages.
  std::string name;
  /// See ReferenceArgs.
  bool is_first_in_group = true;
};

}  // namespace tpc
