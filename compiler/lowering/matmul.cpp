#include "compiler/lowering/matmul.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/ops/einsum.h"

namespace tpc {
namespace {

/// cuBLASLt wants rows of aux to begin at 16 bytes and to be whole multiples of so many elements.
constexpr int64_t kAuxElements = 8;
constexpr uintptr_t kAuxAlignment = 16;

/// The stride from one batch index to the next; nullopt when the batch letters do not follow one.
std::optional<int64_t> batch_stride(const TermLayout& tensor, const std::string& batch) {
  return tensor.merged_stride(batch);
}

/// A row-major matrix [rows, columns] is the column-major matrix [columns, rows].
BlasMatrix blas_matrix(DType dtype, const MatrixLayout& layout, int64_t stride, int64_t rows, int64_t columns) {
  BlasMatrix matrix;
  matrix.dtype = dtype;
  matrix.is_transposed = layout.column != 1;
  matrix.rows = matrix.is_transposed ? rows : columns;
  matrix.columns = matrix.is_transposed ? columns : rows;
  matrix.ld = matrix.is_transposed ? layout.column : layout.row;
  // A single column may have any leading dimension that is not too small.
  matrix.ld = std::max(matrix.ld, matrix.rows);
  matrix.batch_stride = stride;
  return matrix;
}

/// `into`: the tensor is read, and copied before; else it is written, and copied afterwards.
BlasMatrix place(const LocalTensor& tensor, const std::string& term, const std::string& batch, const std::string& rows,
                 const std::string& columns, bool into) {
  TermLayout own(term, tensor.region.extents());
  std::optional<MatrixLayout> layout = own.layout(batch, rows, columns);
  std::optional<int64_t> stride = batch_stride(own, batch);
  if (layout && stride) {
    return blas_matrix(tensor.type.dtype, *layout, *stride, own.size(rows), own.size(columns));
  }
  TermLayout packed = own.reordered(batch + rows + columns);
  BlasMatrix matrix = blas_matrix(tensor.type.dtype, *packed.layout(batch, rows, columns), *batch_stride(packed, batch),
                                  own.size(rows), own.size(columns));
  matrix.copy = into ? reordered_copy(own, packed) : reordered_copy(packed, own);
  return matrix;
}

/// The transpose of a matrix, in the same memory.
BlasMatrix flipped(BlasMatrix matrix) {
  matrix.is_transposed = !matrix.is_transposed;
  return matrix;
}

bool is_over(const LocalTensor& a, const LocalTensor& b) { return a.data == b.data && a.region == b.region; }

bool overlaps(const LocalTensor& a, const LocalTensor& b) {
  auto begin = [](const LocalTensor& t) { return reinterpret_cast<uintptr_t>(t.data); };
  auto end = [&](const LocalTensor& t) {
    return begin(t) + static_cast<uintptr_t>(t.region.num_elements() * byte_size(t.type.dtype));
  };
  return begin(a) < end(b) && begin(b) < end(a);
}

bool is_tanh_gelu(const LocalStep& step, OpKind op) {
  return step.op == op && step.attributes.get_string("function") == "gelu_tanh";
}

bool is_aux(const LocalTensor& tensor, const Matmul& matmul) {
  bool is_aligned = reinterpret_cast<uintptr_t>(tensor.data) % kAuxAlignment == 0;
  return is_aligned && matmul.d.ld % kAuxElements == 0 && tensor.type.dtype == matmul.d.dtype;
}

/// The columns of the row-major result, in its last dimensions: what a bias has one element for each of.
bool is_along_columns(const LocalTensor& bias, const LocalTensor& result, const Matmul& matmul) {
  size_t bias_rank = bias.region.dims.size();
  size_t rank = result.region.dims.size();
  return bias_rank <= rank && bias.region.num_elements() == matmul.m &&
         std::equal(bias.region.dims.begin(), bias.region.dims.end(),
                    result.region.dims.end() - static_cast<std::ptrdiff_t>(bias_rank));
}

/// Epilogues work on the stored result as it is.
bool takes_epilogue(const Matmul& matmul) { return !matmul.d.copy && !matmul.swapped && matmul.batch == 1; }

/// Contraction, bias, gelu.
FusedSteps fuse_forward(std::span<const LocalStep> steps) {
  FusedSteps fused{1, {matmul_of(steps[0])}};
  FusedMatmul& product = fused.matmuls[0];
  Matmul& matmul = product.matmul;
  if (!takes_epilogue(matmul)) return fused;
  auto next = [&](size_t i) { return i < steps.size() ? &steps[i] : nullptr; };

  const LocalStep* add = next(1);
  bool is_bias = add != nullptr && add->op == OpKind::kAdd && add->operands.size() == 2 &&
                 is_over(add->operands[0], product.d) && is_over(add->results[0], product.d) &&
                 add->operands[1].type.dtype == matmul.d.dtype && add->results[0].type == product.d.type &&
                 is_along_columns(add->operands[1], product.d, matmul) && !overlaps(add->operands[1], product.d);
  if (is_bias) {
    product.bias = add->operands[1];
    matmul.epilogue = MatmulEpilogue::kBias;
    fused.count = 2;
  }
  const LocalStep* gelu = next(fused.count);
  if (gelu == nullptr || !is_tanh_gelu(*gelu, OpKind::kUnary) || !is_over(gelu->operands[0], product.d)) return fused;
  const LocalTensor& result = gelu->results[0];
  if (result.type != product.d.type) return fused;
  if (is_over(result, product.d)) {
    matmul.epilogue = is_bias ? MatmulEpilogue::kBiasGelu : MatmulEpilogue::kGelu;
  } else if (is_aux(product.d, matmul) && !overlaps(result, product.d)) {
    matmul.epilogue = is_bias ? MatmulEpilogue::kBiasGeluAux : MatmulEpilogue::kGeluAux;
    matmul.aux_ld = matmul.d.ld;
    product.aux = product.d;
    product.d = result;
  } else {
    return fused;
  }
  ++fused.count;
  return fused;
}

/// A gradient's contraction, perhaps another one, the gradient of gelu over the first, and its sum.
FusedSteps fuse_backward(std::span<const LocalStep> steps) {
  FusedSteps alone{1, {matmul_of(steps[0])}};
  FusedMatmul product = alone.matmuls[0];
  if (!takes_epilogue(product.matmul)) return alone;
  FusedSteps fused{1, {}};
  if (steps.size() > 1 && steps[1].op == OpKind::kContract) {
    FusedMatmul other = matmul_of(steps[1]);
    if (overlaps(other.x, product.d) || overlaps(other.w, product.d) || overlaps(other.d, product.d)) return alone;
    fused.matmuls.push_back(std::move(other));
    fused.count = 2;
  }
  if (steps.size() <= fused.count) return alone;
  const LocalStep& gelu = steps[fused.count];
  if (!is_tanh_gelu(gelu, OpKind::kUnaryGrad) || !is_over(gelu.operands[0], product.d) ||
      !is_over(gelu.results[0], product.d) || gelu.results[0].type != product.d.type) {
    return alone;
  }
  // The product reads what gelu saw before anything is written over it.
  if (!is_aux(gelu.operands[1], product.matmul) || overlaps(gelu.operands[1], product.d)) return alone;
  bool aux_is_changed = !fused.matmuls.empty() && overlaps(fused.matmuls[0].d, gelu.operands[1]);
  if (aux_is_changed) return alone;
  product.matmul.epilogue = MatmulEpilogue::kGeluGrad;
  product.matmul.aux_ld = product.matmul.d.ld;
  product.aux = gelu.operands[1];
  ++fused.count;
  if (steps.size() > fused.count) {
    const LocalStep& sum = steps[fused.count];
    bool is_bias_grad = sum.op == OpKind::kReduceSum && is_over(sum.operands[0], product.d) &&
                        sum.results[0].type.dtype == product.matmul.d.dtype &&
                        is_along_columns(sum.results[0], product.d, product.matmul) &&
                        !overlaps(sum.results[0], product.d) && !overlaps(sum.results[0], *product.aux) &&
                        std::ranges::none_of(fused.matmuls, [&](const FusedMatmul& other) {
                          return overlaps(sum.results[0], other.x) || overlaps(sum.results[0], other.w) ||
                                 overlaps(sum.results[0], other.d);
                        });
    if (is_bias_grad) {
      product.matmul.epilogue = MatmulEpilogue::kGeluGradBiasGrad;
      product.bias = sum.results[0];
      ++fused.count;
    }
  }
  fused.matmuls.insert(fused.matmuls.begin(), std::move(product));
  return fused;
}

}  // namespace

std::string_view to_string(MatmulEpilogue epilogue) {
  switch (epilogue) {
    case MatmulEpilogue::kNone:
      return "none";
    case MatmulEpilogue::kBias:
      return "bias";
    case MatmulEpilogue::kBiasGelu:
      return "bias+gelu";
    case MatmulEpilogue::kBiasGeluAux:
      return "bias+gelu+aux";
    case MatmulEpilogue::kGelu:
      return "gelu";
    case MatmulEpilogue::kGeluAux:
      return "gelu+aux";
    case MatmulEpilogue::kGeluGrad:
      return "gelu_grad";
    case MatmulEpilogue::kGeluGradBiasGrad:
      return "gelu_grad+bias_grad";
  }
  TPC_UNREACHABLE("epilogue {}", static_cast<int>(epilogue));
}

FusedMatmul matmul_of(const LocalStep& contract) {
  Einsum einsum = parse_einsum(contract.attributes.get_string("einsum"));
  const auto& [batch, m, n, k] = einsum_groups(einsum);
  FusedMatmul result;
  result.x = contract.operands[0];
  result.w = contract.operands[1];
  result.d = contract.results[0];
  BlasMatrix x = place(result.x, einsum.x, batch, m, k, /*into=*/true);
  BlasMatrix w = place(result.w, einsum.w, batch, k, n, /*into=*/true);
  BlasMatrix y = place(result.d, einsum.y, batch, m, n, /*into=*/false);
  TermLayout layout(einsum.y, result.d.region.extents());
  Matmul& matmul = result.matmul;
  matmul.m = layout.size(n);
  matmul.n = layout.size(m);
  matmul.k = TermLayout(einsum.x, result.x.region.extents()).size(k);
  matmul.batch = layout.size(batch);
  matmul.a = std::move(w);
  matmul.b = std::move(x);
  matmul.d = std::move(y);
  if (matmul.d.is_transposed) {
    // The result's columns lie together: what is computed is its transpose.
    matmul.swapped = true;
    std::swap(matmul.m, matmul.n);
    std::swap(matmul.a, matmul.b);
    for (BlasMatrix* matrix : {&matmul.a, &matmul.b, &matmul.d}) *matrix = flipped(std::move(*matrix));
  }
  return result;
}

FusedSteps fuse_contractions(std::span<const LocalStep> steps) {
  FusedSteps backward = fuse_backward(steps);
  return backward.count > 1 ? backward : fuse_forward(steps);
}

}  // namespace tpc
