/// `tprun --check` for tests: runs in either precision, some of them tampered with, and what the check says of them.
#pragma once

#include <functional>
#include <string>

#include "compiler/core/diagnostic.h"
#include "compiler/plan/plan.h"
#include "runtime/check/observed_run.h"

namespace tpc::testing {

/// The plan of the same model on one rank.
Plan model_plan(const Plan& plan);

/// The run of training, on the cpu backend with one thread a rank.
MakeRun trained(uint64_t seed = 0);
MakeRun in_double(uint64_t seed = 0);

/// Changes what one rank holds of a tensor, before anyone looks.
struct Tampering {
  int64_t rank = 0;
  int tensor = 0;
  /// The plan step after which it is changed; -1: as the run starts.
  int step = -1;
  std::function<void(const Elements& elements)> change;
};

/// The runs of `make_run`; those on several ranks are tampered with.
MakeRun tampered(MakeRun make_run, Tampering tampering);
/// Flips the lowest bit of the last element.
void flip_last_bit(const Elements& elements);

/// The error that the check of a run on fixed data ends in, with "plan.json" as the file; without a message when all
/// agrees.
Diagnostic check_run(const Plan& plan, const MakeRun& make_run, uint64_t steps = 1, uint64_t seed = 0);

/// Whether a note of the diagnostic has this part.
bool has_note(const Diagnostic& report, const std::string& part);

}  // namespace tpc::testing
