#include <cmath>

#include "compiler/ops/elementwise.h"

namespace tpc {
namespace {

void reference(const ReferenceArgs& args) {
  map_elements(args, [](double x) { return std::sqrt(x); });
}

}  // namespace

const OpDef kSquareRootOp = {
    .kind = OpKind::kSquareRoot,
    .name = "square_root",
    .summary = "y = sqrt(x)",
    .min_operands = 1,
    .max_operands = 1,
    .infer_types = infer_broadcast,
    .sharding_rule = elementwise_rule,
    .cost = elementwise_cost<1>,
    .reference = reference,
    .inplace = {0},
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
