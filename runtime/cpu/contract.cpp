// Contractions as (batched) matrix products of oneDNN, on the operands where they lie when their strides allow it. For
// the shapes of small and middle-sized transformers its matmul on plain and transposed layouts is as fast as, or faster
// than, dnnl_sgemm and a weight repacked in every step; one primitive for a whole batch is far faster than a call a
// matrix.
#include <dnnl.hpp>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/core/check.h"
#include "compiler/ops/einsum.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/strided_copy.h"

namespace tpc {
namespace {

/// An operand as matrices [rows, columns], one a batch index.
struct MatrixLayout {
  dnnl::memory::dims batch;
  int64_t row = 1;
  int64_t column = 1;
};

/// The letters of a tensor's term with their local sizes and strides.
struct Letters {
  std::string term;
  Shape sizes;
  Shape strides;

  Letters(std::string text, const Shape& shape)
      : term(std::move(text)), sizes(shape), strides(row_major_strides(shape)) {}

  int64_t size(char letter) const { return sizes[term.find(letter)]; }
  int64_t stride(char letter) const { return strides[term.find(letter)]; }

  int64_t size(std::string_view letters) const {
    int64_t product = 1;
    for (char letter : letters) product *= size(letter);
    return product;
  }

  /// The stride with which one index runs over all `letters` in that order; 0 for one element; nullopt when none does.
  std::optional<int64_t> merged_stride(std::string_view letters) const {
    int64_t inner = 0;
    int64_t next = 0;
    for (size_t i = letters.size(); i > 0; --i) {
      const char letter = letters[i - 1];
      if (size(letter) == 1) continue;
      if (inner == 0) {
        inner = stride(letter);
      } else if (stride(letter) != next) {
        return std::nullopt;
      }
      next = stride(letter) * size(letter);
    }
    return inner;
  }

  /// nullopt unless rows or columns lie together.
  std::optional<MatrixLayout> layout(std::string_view batch, std::string_view rows, std::string_view columns) const {
    const std::optional<int64_t> row = merged_stride(rows);
    const std::optional<int64_t> column = merged_stride(columns);
    if (!row || !column) return std::nullopt;
    MatrixLayout result;
    for (char letter : batch) result.batch.push_back(stride(letter));
    // A dimension of one element may have any stride: the one that makes the layout a plain one.
    result.column = *column != 0 ? *column : (*row == 1 ? size(rows) : 1);
    result.row = *row != 0 ? *row : (result.column == 1 ? size(columns) : 1);
    if (result.row != 1 && result.column != 1) return std::nullopt;
    return result;
  }
};

/// Where a tensor is used: in place, or through a dense copy in another order of its dimensions.
struct MatrixOperand {
  MatrixLayout layout;
  std::optional<StridedCopy> copy;
  int64_t copy_floats = 0;
};

/// Copies and the library's scratch begin at whole cache lines.
constexpr int64_t kLineFloats = 16;
constexpr int64_t whole_lines(int64_t floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }

/// A dense copy with the letters in the order `packed_term`. `into` says the direction: into the copy or out of it.
MatrixOperand pack(const Letters& tensor, const std::string& packed_term, const MatrixLayout& layout, bool into) {
  Shape packed_sizes;
  for (char letter : packed_term) packed_sizes.push_back(tensor.size(letter));
  const Letters packed(packed_term, packed_sizes);
  // The loop follows the side that is written.
  const Letters& loop = into ? packed : tensor;
  IndexMap of_tensor;
  IndexMap of_packed;
  for (char letter : loop.term) {
    of_tensor.strides.push_back(tensor.stride(letter));
    of_packed.strides.push_back(packed.stride(letter));
  }
  MatrixOperand operand;
  operand.layout = layout;
  operand.copy.emplace(whole_region(loop.sizes), into ? of_tensor : of_packed, into ? of_packed : of_tensor);
  operand.copy_floats = num_elements(tensor.sizes);
  return operand;
}

/// Keeps the number of threads that a primitive was made for while it runs: its partition and scratch count on it.
class ThreadCountScope {
 public:
  explicit ThreadCountScope(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
  }
  ~ThreadCountScope() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int before_;
};

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

class ContractKernel final : public Kernel {
 public:
  ContractKernel(const LocalStep& step, std::shared_ptr<Scratch> scratch)
      : name_(step.name),
        einsum_(parse_einsum(step.attributes.get_string("einsum"))),
        groups_(einsum_groups(einsum_)),
        x_(einsum_.x, step.operands[0].region.extents()),
        w_(einsum_.w, step.operands[1].region.extents()),
        y_(einsum_.y, step.results[0].region.extents()),
        tensors_{step.operands[0].f32(), step.operands[1].f32(), step.results[0].f32()},
        num_threads_(omp_get_max_threads()),
        scratch_(std::move(scratch)),
        stream_(cpu_engine()) {
    try {
      if (!make_primitive(/*pack_all=*/false)) {
        TPC_CHECK(make_primitive(/*pack_all=*/true), "oneDNN has no fast product for \"{}\"", to_string(einsum_));
      }
    } catch (const dnnl::error& error) {
      throw DeviceError(fmt::format("\"{}\": oneDNN cannot prepare {}: {}", name_, to_string(einsum_), error.what()));
    }
    reserve_scratch();
  }

  void run(const StepContext& /*context*/) override {
    const ThreadCountScope threads(num_threads_);
    float* const scratch = first_line(scratch_->of(0));
    auto data = [&](size_t i) { return operands_[i].copy ? scratch + scratch_at_[i] : tensors_[i]; };
    try {
      for (size_t i = 0; i < 3; ++i) arguments_.at(roles_[i]).set_data_handle(data(i));
      arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(scratch + scratch_at_[3]);
      if (operands_[0].copy) operands_[0].copy->run(tensors_[0], data(0));
      if (operands_[1].copy) operands_[1].copy->run(tensors_[1], data(1));
      product_.execute(stream_, arguments_);
    } catch (const dnnl::error& error) {
      throw DeviceError(fmt::format("\"{}\": oneDNN failed in {}: {}", name_, to_string(einsum_), error.what()));
    }
    if (operands_[2].copy) operands_[2].copy->run(data(2), tensors_[2]);
  }

 private:
  /// Chooses the layouts and makes the product; false when oneDNN would take its slow reference implementation.
  bool make_primitive(bool pack_all) {
    const auto& [batch, m, n, k] = groups_;
    const int64_t rows = y_.size(m);
    const int64_t columns = y_.size(n);
    const int64_t inner = x_.size(k);
    operands_[0] = place(x_, batch, m, k, pack_all, /*into=*/true);
    operands_[1] = place(w_, batch, k, n, pack_all, /*into=*/true);
    operands_[2] = place(y_, batch, m, n, pack_all, /*into=*/false);

    dnnl::memory::dims batch_sizes;
    for (char letter : batch) batch_sizes.push_back(y_.size(letter));
    auto descriptor = [&](const MatrixLayout& layout, int64_t r, int64_t c, bool transposed) {
      dnnl::memory::dims dims = batch_sizes;
      dnnl::memory::dims strides = layout.batch;
      dims.insert(dims.end(), {transposed ? c : r, transposed ? r : c});
      strides.insert(strides.end(), {transposed ? layout.column : layout.row, transposed ? layout.row : layout.column});
      return dnnl::memory::desc(dims, dnnl::memory::data_type::f32, strides);
    };
    // oneDNN wants the result's rows in one piece: y' = w' x' where it is the columns that are.
    const bool swapped = operands_[2].layout.column != 1;
    const MatrixOperand& left = operands_[swapped ? 1 : 0];
    const MatrixOperand& right = operands_[swapped ? 0 : 1];
    const auto left_desc =
        swapped ? descriptor(left.layout, inner, columns, true) : descriptor(left.layout, rows, inner, false);
    const auto right_desc =
        swapped ? descriptor(right.layout, rows, inner, true) : descriptor(right.layout, inner, columns, false);
    const auto y_desc = descriptor(operands_[2].layout, rows, columns, swapped);

    // The library's own scratch belongs to the thread that makes a primitive; a kernel may run on another one.
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc product(dnnl::matmul::desc(left_desc, right_desc, y_desc), attributes,
                                               cpu_engine());
    const bool is_reference = std::string_view(product.impl_info_str()).starts_with("ref");
    if (is_reference && !pack_all) return false;

    product_ = dnnl::matmul(product);
    roles_[0] = swapped ? DNNL_ARG_WEIGHTS : DNNL_ARG_SRC;
    roles_[1] = swapped ? DNNL_ARG_SRC : DNNL_ARG_WEIGHTS;
    roles_[2] = DNNL_ARG_DST;
    // Where the data lie is told before each run, for scratch is found then.
    arguments_ = {
        {DNNL_ARG_SRC, dnnl::memory(left_desc, cpu_engine(), nullptr)},
        {DNNL_ARG_WEIGHTS, dnnl::memory(right_desc, cpu_engine(), nullptr)},
        {DNNL_ARG_DST, dnnl::memory(y_desc, cpu_engine(), nullptr)},
        {DNNL_ARG_SCRATCHPAD, dnnl::memory(product.scratchpad_desc(), cpu_engine(), nullptr)},
    };
    return true;
  }

  /// Copies one after the other, then the library's scratch.
  void reserve_scratch() {
    int64_t floats = 0;
    for (size_t i = 0; i < 3; ++i) {
      scratch_at_[i] = floats;
      floats += whole_lines(operands_[i].copy_floats);
    }
    scratch_at_[3] = floats;
    auto bytes = static_cast<int64_t>(arguments_.at(DNNL_ARG_SCRATCHPAD).get_desc().get_size());
    floats += whole_lines((bytes + 3) / 4);
    scratch_->reserve(1, floats + kLineFloats);
  }

  static float* first_line(float* scratch) {
    auto address = reinterpret_cast<uintptr_t>(scratch);
    constexpr uintptr_t kLineBytes = kLineFloats * sizeof(float);
    return scratch + (kLineBytes - address % kLineBytes) % kLineBytes / sizeof(float);
  }

  MatrixOperand place(const Letters& tensor, const std::string& batch, const std::string& rows,
                      const std::string& columns, bool always_pack, bool into) const {
    const std::optional<MatrixLayout> layout = tensor.layout(batch, rows, columns);
    if (layout && !always_pack) return {*layout, std::nullopt, 0};
    const std::string packed_term = batch + rows + columns;
    Shape packed_sizes;
    for (char letter : packed_term) packed_sizes.push_back(tensor.size(letter));
    return pack(tensor, packed_term, *Letters(packed_term, packed_sizes).layout(batch, rows, columns), into);
  }

  std::string name_;
  Einsum einsum_;
  EinsumGroups groups_;
  Letters x_;
  Letters w_;
  Letters y_;
  float* tensors_[3];
  int num_threads_;
  MatrixOperand operands_[3];
  std::shared_ptr<Scratch> scratch_;
  int64_t scratch_at_[4] = {};  ///< of the three copies and the library's scratch, in floats
  int roles_[3] = {};           ///< the library's names of x, w and y
  dnnl::stream stream_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

std::unique_ptr<Kernel> prepare_contract(const LocalStep& step, std::shared_ptr<Scratch> scratch) {
  return std::make_unique<ContractKernel>(step, std::move(scratch));
}

}  // namespace tpc
