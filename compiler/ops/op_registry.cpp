// The table of ops, generated from op_list.def.
#include <iterator>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

const OpDef* const kOps[] = {
#define OP(enumerator, row) &(row),
#include "compiler/ir/op_list.def"
#undef OP
};

}  // namespace

const OpDef& op_def(OpKind kind) {
  auto index = static_cast<size_t>(kind);
  TPC_CHECK(index < std::size(kOps), "op kind {}", index);
  TPC_CHECK(kOps[index]->kind == kind, "the row of op kind {} is that of \"{}\"", index, kOps[index]->name);
  return *kOps[index];
}

const OpDef* find_op(std::string_view name) {
  for (const OpDef* op : kOps) {
    if (op->name == name) return op;
  }
  return nullptr;
}

std::span<const OpDef* const> all_ops() { return kOps; }

}  // namespace tpc
