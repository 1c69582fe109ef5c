#include "compiler/lowering/matmul.h"

#include <algorithm>
#include <numeric>

#include "compiler/core/check.h"
#include "compiler/ops/einsum.h"

namespace tpc {
namespace {

// cuBLASLt wants rows of aux to begin at 16 bytes and to be whole multiples of so many elements.
constexpr int64_t kAuxElements = 8;
constexpr uintptr_t kAuxAlignment = 16;

// A row-major matrix [rows, columns] is the column-major matrix [columns, rows].
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

// `into`: the tensor is read, and copied before; else it is written, and copied afterwards.
BlasMatrix place(const LocalTensor& tensor, const std::string& term, const std::string& batch, const std::string& rows,
                 const std::string& columns, bool into) {
  TermLayout own(term, tensor.region.extents());
  std::optional<MatrixLayout> layout = own.layout(batch, rows, columns);
  std::optional<int64_t> stride = own.merged_stride(batch);
  if (layout && stride) {
    return blas_matrix(tensor.type.dtype, *layout, *stride, own.size(rows), own.size(columns));
  }
  TermLayout packed = own.reordered(batch + rows + columns);
  BlasMatrix matrix = blas_matrix(tensor.type.dtype, *packed.layout(batch, rows, columns), *packed.merged_stride(batch),
                                  own.size(rows), own.size(columns));
  matrix.copy = into ? reordered_copy(own, packed) : reordered_copy(packed, own);
  return matrix;
}

// The transpose of a matrix, in the same memory.
BlasMatrix flipped(BlasMatrix matrix) {
  matrix.is_transposed = !matrix.is_transposed;
  return matrix;
}

bool is_over(const LocalTensor& a, const LocalTensor& b) { return a.data == b.data && a.region == b.region; }

bool is_tanh_gelu(const LocalStep& step, OpKind op) {
  return step.op == op && step.attributes.get_string("function") == "gelu_tanh";
}

bool is_aux(const LocalTensor& tensor, const Matmul& matmul) {
  bool is_aligned = reinterpret_cast<uintptr_t>(tensor.data) % kAuxAlignment == 0;
  return is_aligned && matmul.d.ld % kAuxElements == 0 && tensor.type.dtype == matmul.d.dtype;
}

// The columns of the row-major result, in its last dimensions: what a bias has one element for each of.
bool is_along_columns(const LocalTensor& bias, const LocalTensor& result, const Matmul& matmul) {
  size_t bias_rank = bias.region.dims.size();
  size_t rank = result.region.dims.size();
  return bias_rank <= rank && bias.region.num_elements() == matmul.m &&
         std::equal(bias.region.dims.begin(), bias.region.dims.end(),
                    result.region.dims.end() - static_cast<std::ptrdiff_t>(bias_rank));
}

// Epilogues work on the stored result as it is.
bool takes_epilogue(const Matmul& matmul) { return !matmul.d.copy && !matmul.swapped && matmul.batch == 1; }

bool reads_bias(MatmulEpilogue epilogue) {
  return epilogue == MatmulEpilogue::kBias || epilogue == MatmulEpilogue::kBiasGelu ||
         epilogue == MatmulEpilogue::kBiasGeluAux;
}

bool writes_aux(MatmulEpilogue epilogue) {
  return epilogue == MatmulEpilogue::kBiasGeluAux || epilogue == MatmulEpilogue::kGeluAux;
}

bool any_overlap(std::span<const LocalTensor> a, std::span<const LocalTensor> b) {
  return std::ranges::any_of(
      a, [&](const LocalTensor& x) { return std::ranges::any_of(b, [&](const auto& y) { return overlap(x, y); }); });
}

// A plan may lay the result of a later step over what an earlier one has read for the last time. One product of both
// would read and write that at once.
bool is_sound(const FusedMatmul& product) {
  const TouchedTensors touched = touched_by(product);
  for (size_t i = 0; i < touched.written.size(); ++i) {
    if (any_overlap(std::span(touched.written).first(i), std::span(touched.written).subspan(i, 1))) return false;
  }
  return !any_overlap(touched.read, touched.written);
}

// Either may go first.
bool are_independent(const FusedMatmul& a, const FusedMatmul& b) {
  const TouchedTensors of_a = touched_by(a), of_b = touched_by(b);
  return !any_overlap(of_a.written, of_b.read) && !any_overlap(of_a.written, of_b.written) &&
         !any_overlap(of_a.read, of_b.written);
}

// Sums over all dimensions before the last ones: `rank` are left.
bool sums_leading(const LocalStep& sum, size_t rank) {
  std::vector<int64_t> dims(sum.operands[0].region.dims.size() - rank);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return sum.attributes.get_ints("dims") == dims;
}

// Contraction, bias, gelu.
FusedSteps fuse_forward(std::span<const LocalStep> steps) {
  FusedSteps fused{1, {matmul_of(steps[0])}};
  FusedMatmul product = fused.matmuls[0];
  if (!takes_epilogue(product.matmul)) return fused;
  auto next = [&]() { return fused.count < steps.size() ? &steps[fused.count] : nullptr; };
  auto take = [&](const FusedMatmul& larger) {
    if (!is_sound(larger)) return false;
    fused.matmuls[0] = larger;
    ++fused.count;
    return true;
  };

  const LocalStep* add = next();
  bool is_bias = add != nullptr && add->op == OpKind::kAdd && add->operands.size() == 2 &&
                 is_over(add->operands[0], product.d) && is_over(add->results[0], product.d) &&
                 add->operands[1].type.dtype == product.matmul.d.dtype && add->results[0].type == product.d.type &&
                 is_along_columns(add->operands[1], product.d, product.matmul);
  if (is_bias) {
    product.bias = add->operands[1];
    product.matmul.epilogue = MatmulEpilogue::kBias;
    if (!take(product)) return fused;
  }
  const LocalStep* gelu = next();
  if (gelu == nullptr || !is_tanh_gelu(*gelu, OpKind::kUnary) || !is_over(gelu->operands[0], product.d)) return fused;
  const LocalTensor& result = gelu->results[0];
  if (result.type != product.d.type) return fused;
  if (is_over(result, product.d)) {
    product.matmul.epilogue = is_bias ? MatmulEpilogue::kBiasGelu : MatmulEpilogue::kGelu;
  } else if (is_aux(product.d, product.matmul)) {
    product.matmul.epilogue = is_bias ? MatmulEpilogue::kBiasGeluAux : MatmulEpilogue::kGeluAux;
    product.matmul.aux_ld = product.matmul.d.ld;
    product.aux = product.d;
    product.d = result;
  } else {
    return fused;
  }
  take(product);
  return fused;
}

// A gradient's contraction, perhaps another one, the gradient of gelu over the first, and its sum. The other one goes
// out after what follows it in the plan.
FusedSteps fuse_backward(std::span<const LocalStep> steps) {
  const FusedSteps alone{1, {matmul_of(steps[0])}};
  FusedMatmul product = alone.matmuls[0];
  if (!takes_epilogue(product.matmul)) return alone;
  std::vector<FusedMatmul> others;
  if (steps.size() > 1 && steps[1].op == OpKind::kContract) others.push_back(matmul_of(steps[1]));
  size_t count = 1 + others.size();
  auto is_possible = [&] { return is_sound(product) && (others.empty() || are_independent(product, others.front())); };
  if (steps.size() <= count) return alone;
  const LocalStep& gelu = steps[count];
  if (!is_tanh_gelu(gelu, OpKind::kUnaryGrad) || !is_over(gelu.operands[0], product.d) ||
      !is_over(gelu.results[0], product.d) || gelu.results[0].type != product.d.type ||
      !is_aux(gelu.operands[1], product.matmul)) {
    return alone;
  }
  product.matmul.epilogue = MatmulEpilogue::kGeluGrad;
  product.matmul.aux_ld = product.matmul.d.ld;
  product.aux = gelu.operands[1];
  if (!is_possible()) return alone;
  FusedSteps fused{++count, {product}};
  if (steps.size() > count) {
    const LocalStep& sum = steps[count];
    bool is_bias_grad = sum.op == OpKind::kReduceSum && is_over(sum.operands[0], product.d) &&
                        sum.results[0].type.dtype == product.matmul.d.dtype &&
                        sums_leading(sum, sum.results[0].region.dims.size()) &&
                        is_along_columns(sum.results[0], product.d, product.matmul);
    if (is_bias_grad) {
      product.matmul.epilogue = MatmulEpilogue::kGeluGradBiasGrad;
      product.bias = sum.results[0];
      if (is_possible()) fused = {++count, {product}};
    }
  }
  fused.matmuls.insert(fused.matmuls.end(), others.begin(), others.end());
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

TouchedTensors touched_by(const FusedMatmul& product) {
  const MatmulEpilogue epilogue = product.matmul.epilogue;
  TouchedTensors touched{{product.x, product.w}, {product.d}};
  if (product.bias) (reads_bias(epilogue) ? touched.read : touched.written).push_back(*product.bias);
  if (product.aux) (writes_aux(epilogue) ? touched.written : touched.read).push_back(*product.aux);
  return touched;
}

FusedSteps fuse_contractions(std::span<const LocalStep> steps) {
  FusedSteps backward = fuse_backward(steps);
  return backward.count > 1 ? backward : fuse_forward(steps);
}

}  // namespace tpc
