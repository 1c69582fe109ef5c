/// A contraction as one strided-batched matrix product of a BLAS that counts in columns (cuBLASLt).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/lowering/local_step.h"
#include "compiler/lowering/matrix_layout.h"

namespace tpc {

/// One of the three matrices, column-major: element (i, j) of batch index b lies at b * batch_stride + i + j * ld.
struct BlasMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0;  ///< as it lies in memory, before `is_transposed`
  int64_t columns = 0;
  int64_t ld = 0;
  int64_t batch_stride = 0;
  /// The product takes the transpose.
  bool is_transposed = false;
  /// The tensor lies otherwise and is copied: into this form before the product, or out of it afterwards. Dense, in
  /// working memory.
  std::optional<ReorderedCopy> copy;
};

/// What is done to the product before it is stored.
enum class MatmulEpilogue : uint8_t {
  kNone,
  kBias,             ///< d = ab + bias
  kBiasGelu,         ///< d = gelu(ab + bias)
  kBiasGeluAux,      ///< the same; aux = ab + bias
  kGelu,             ///< d = gelu(ab)
  kGeluAux,          ///< the same; aux = ab
  kGeluGrad,         ///< d = ab * gelu'(aux)
  kGeluGradBiasGrad  ///< the same; bias = sum of d over its columns
};

/// "none", "bias", "bias+gelu", ...
std::string_view to_string(MatmulEpilogue epilogue);

/// d[m, n] = a[m, k] b[k, n] for each of `batch` indices. Row-major tensors are column-major transposes, so a is the
/// contraction's second operand and b its first, unless they are `swapped` since the result's rows lie apart. A bias
/// runs along m.
struct Matmul {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  BlasMatrix a;
  BlasMatrix b;
  BlasMatrix d;
  bool swapped = false;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  /// Leading dimension of aux, which has the form of d.
  int64_t aux_ld = 0;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

/// A product and the tensors that it works on.
struct FusedMatmul {
  Matmul matmul;
  LocalTensor x;  ///< the contraction's operands
  LocalTensor w;
  LocalTensor d;  ///< what is stored
  std::optional<LocalTensor> bias;
  std::optional<LocalTensor> aux;
};

/// What a product reads and what it writes, whole; no two of them share bytes, except two that are read.
struct TouchedTensors {
  std::vector<LocalTensor> read;
  std::vector<LocalTensor> written;
};
TouchedTensors touched_by(const FusedMatmul& product);

/// What the first steps become.
struct FusedSteps {
  size_t count = 0;  ///< how many steps
  /// In order.
  std::vector<FusedMatmul> matmuls;
};

/// The product of one contract step alone.
FusedMatmul matmul_of(const LocalStep& contract);

/// How the first of `steps`, which is a contraction, and those after it become products with epilogues:
/// contraction, bias added over it, tanh-gelu of that; or a gradient's contraction, another one that has nothing to do
/// with it, the gradient of tanh-gelu over the first, and the sum of that which is the bias' gradient. A result
/// vanishes only where the plan writes another one over it. At least the contraction alone.
FusedSteps fuse_contractions(std::span<const LocalStep> steps);

}  // namespace tpc
