/// Which collectives of two plans are the same, and which are not.
#pragma once

#include <vector>

#include "compiler/plan/plan_difference.h"
#include "compiler/plan/report.h"

namespace tpc {

struct CollectiveChanges {
  std::vector<CollectiveChange> changes;
  int64_t equal = 0;
};

/// Collectives are paired by what they convert: tensor and phase, then, of several, the ones most alike (bytes,
/// conversion, kind). `before_report` and `after_report` are of the plans.
CollectiveChanges collective_changes(const Plan& before, const Report& before_report, const Plan& after,
                                     const Report& after_report);

}  // namespace tpc
