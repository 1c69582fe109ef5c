#include "passes/plan_flaw.h"

#include <fmt/format.h>

#include "compiler/core/diagnostic.h"
#include "compiler/verify/buffer_proof.h"
#include "compiler/verify/plan_proof.h"
#include "compiler/verify/rank_proof.h"

namespace tpc {
namespace {

std::optional<verify::Flaw> find_rank_flaw(const Plan& plan) {
  verify::RankProof proof(plan);
  RankPrograms programs(plan);
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    std::optional<verify::Flaw> flaw = proof.find_flaw(programs.of(rank));
    if (!flaw) continue;
    flaw->message = fmt::format("rank {} {}", rank, flaw->message);
    return flaw;
  }
  return std::nullopt;
}

}  // namespace

std::optional<verify::Flaw> find_plan_flaw(const Plan& plan, const Graph& one_rank) {
  if (std::optional<verify::Flaw> flaw = verify::find_step_flaw(verify::ValueNumbers(one_rank), plan)) return flaw;
  if (std::optional<verify::Flaw> flaw = verify::find_buffer_flaw(plan)) return flaw;
  return find_rank_flaw(plan);
}

void refuse_plan(const Plan& plan, const verify::Flaw& flaw, const std::string& what, const std::string& file) {
  if (flaw.step < 0) {
    std::string place = flaw.tensor < 0 ? "" : fmt::format("/tensors/{}", flaw.tensor);
    throw UserError(SourceLoc{file, place}, fmt::format("{}: {}", what, flaw.message));
  }
  const PlanStep& wrong = plan.steps[static_cast<size_t>(flaw.step)];
  throw UserError(SourceLoc{file, fmt::format("/steps/{}", flaw.step)},
                  fmt::format("{}: \"{}\" ({}, {}): {}", what, wrong.layer, op_name(wrong.op), to_string(wrong.phase),
                              flaw.message));
}

}  // namespace tpc
