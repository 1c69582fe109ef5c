/// The arithmetic of cublasLtMatmul: products and sums in f32, one rounding where D, the sums or the auxiliary buffer
/// are written.
#pragma once

#include "tests/fake_cuda/matmul_problem.h"

namespace fake_cuda {

struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  ///< not read when beta is 0
  void* d = nullptr;
};

void run_matmul(const MatmulProblem& problem, const MatmulOperands& operands, float alpha, float beta);

}  // namespace fake_cuda
