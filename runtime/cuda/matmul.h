/// Contractions by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "compiler/lowering/matmul.h"
#include "runtime/backend.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

struct MatmulOptions {
  /// f32 products may round their operands to 11 bits (TF32); sums stay f32.
  bool tf32 = false;
  /// Times several algorithms for each form of product instead of taking the library's first.
  bool tune = false;
};

/// The products of one rank: the library's handle, and the algorithm of every form met so far.
class Matmuls {
 public:
  /// Prepares one step alone, for what the library has no fused product.
  using PrepareStep = std::function<std::unique_ptr<Kernel>(const LocalStep&)>;

  /// The queue outlives this object.
  Matmuls(MatmulOptions options, DeviceQueue& queue);
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  /// The steps that fuse_contractions makes products of.
  std::unique_ptr<Kernel> prepare(std::span<const LocalStep> steps, const PrepareStep& prepare_step);

 private:
  std::unique_ptr<Kernel> prepare_one(const FusedMatmul& product);

  MatmulOptions options_;
  DeviceQueue& queue_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;  // by the text of the form
};

}  // namespace tpc::cuda
