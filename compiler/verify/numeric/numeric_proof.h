/// The proof of a plan by numbers: executed as it is, it must make the very numbers of its model's one-rank step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "compiler/plan/rank_plan.h"
#include "compiler/verify/flaw.h"

namespace tpc::verify {

/// What was compared.
struct NumericCount {
  int64_t numbers = 0;
};

/// nullopt when every output, parameter and state of every rank is, after one training step of `programs`, bit for bit
/// the model's: its part of what `one_rank` leaves. Both plans start from the same leaves, which `seed` draws. The
/// first tensor in program order whose name `one_rank` knows and whose numbers differ is told, partial sums added up as
/// the plan places them.
///
/// Nothing of how plans are made is asked: neither op rules nor conversions. A plan that is wrong passes with a
/// probability of about its degree as a polynomial in 2^61.
///
/// `one_rank` and `plan` have few elements (tiny_plans); the programs are those of `plan`'s ranks, or what is to be
/// tried in their place.
std::optional<Flaw> numeric_flaw(const Plan& one_rank, const Plan& plan, std::span<const RankPlan> programs,
                                 uint64_t seed, NumericCount* count = nullptr);

/// Thrown where executing a plan would take too long: why, in the user's terms.
struct TooMuchWork {
  std::string message;
};

/// Of the plan at tiny shapes (tiny_plans), for two seeds. Throws TooMuchWork.
std::optional<Flaw> numeric_flaw(const Plan& one_rank, const Plan& plan, NumericCount* count = nullptr);

}  // namespace tpc::verify
