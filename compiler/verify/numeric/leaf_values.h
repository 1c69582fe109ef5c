/// What the inputs, parameters and states of a model are at the start of an execution.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/verify/numeric/field.h"

namespace tpc::verify {

/// A pure function of (seed, name, global index): every rank of every plan sees the same. f32 leaves have any elements.
/// Integers are ids of the tables and logits that they index, every row met where there are as many ids as rows; of
/// labels that a loss may ignore, some are ignored.
class LeafValues {
 public:
  /// `one_rank` says what integers are used for.
  LeafValues(const Plan& one_rank, uint64_t seed);

  /// Of the part `region` of a leaf of the model; the region lies in it.
  std::vector<Element> part(const PlanTensor& leaf, const Region& region) const;

 private:
  uint64_t seed_;
  std::map<std::string, std::vector<Element>> integers_;  ///< whole
};

}  // namespace tpc::verify
