/// What a plan's steps say of the dimensions of its tensors: which are one, and which are made of others.
#pragma once

#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/verify/numeric/dim_atoms.h"

namespace tpc::verify {

/// The dimensions of a plan's tensors in `atoms`.
class StepDims {
 public:
  /// Adds the dimensions of all tensors.
  StepDims(const Plan& plan, DimAtoms& atoms);

  /// Tells `atoms` what all steps and placements of the plan say. Throws Flaw.
  void tell();

  /// The number of dimension `dim` of a tensor in `atoms`.
  int dim(int tensor, size_t dim) const { return first_[static_cast<size_t>(tensor)] + static_cast<int>(dim); }

  /// The plan with the sizes that `atoms` has found.
  Plan shrunk() const;

 private:
  const PlanTensor& tensor(int index) const { return plan_.tensors[static_cast<size_t>(index)]; }
  const Shape& shape(int index) const { return tensor(index).type.shape; }
  void unite(int step, int tensor_a, size_t dim_a, int tensor_b, size_t dim_b);
  void unite_all(int step, int tensor_a, int tensor_b);
  void tell_step(int index);
  void tell_formula(int index);
  void tell_reshape(int index);
  void tell_range(int index);
  void tell_concat(int index);
  void tell_placements();
  void check_sizes(int index) const;

  const Plan& plan_;
  DimAtoms& atoms_;
  std::vector<int> first_;  ///< per tensor, of its first dimension
};

}  // namespace tpc::verify
