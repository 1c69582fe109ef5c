#include "passes/registry.h"

#include <array>

#include "passes/apply_precision.h"
#include "passes/assign_shardings.h"
#include "passes/build_backward.h"
#include "passes/infer_types.h"
#include "passes/insert_redistributes.h"
#include "passes/localize_shapes.h"
#include "passes/lower_redistributes.h"
#include "passes/merge_casts.h"
#include "passes/schedule.h"

namespace tpc {
namespace {

constexpr std::array<PassInfo, 9> kPasses{{
    {"infer-types", "dtype and shape of every value", Stage::kParsed, Stage::kTyped, infer_types},
    {"build-backward", "gradients, gradient norm, optimizer updates", Stage::kTyped, Stage::kDifferentiated,
     build_backward},
    {"apply-precision", "bf16 where the model computes in it, and the casts between", Stage::kDifferentiated,
     Stage::kDifferentiated, apply_precision},
    {"assign-shardings", "a placement for every use, by strategy and annotations", Stage::kDifferentiated,
     Stage::kPlaced, assign_shardings},
    {"insert-redistributes", "explicit conversions where a use wants another placement", Stage::kPlaced,
     Stage::kReconciled, insert_redistributes},
    {"lower-redistributes", "conversions become the cheapest collectives and local moves", Stage::kReconciled,
     Stage::kCollective, lower_redistributes},
    {"merge-casts", "sums that no collective completes are made in their last type at once", Stage::kCollective,
     Stage::kCollective, merge_casts},
    {"localize-shapes", "the shape of the fullest rank's part", Stage::kCollective, Stage::kLocal, localize_shapes},
    {"schedule", "the final order; unread nodes are dropped", Stage::kLocal, Stage::kScheduled, schedule},
}};

}  // namespace

std::span<const PassInfo> all_passes() { return kPasses; }

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& pass : kPasses) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

}  // namespace tpc
