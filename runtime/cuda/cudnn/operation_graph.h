/// A graph of cuDNN operations, built by expressions: `graph.exp(graph.subtract(scores, largest))`.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/cuda/cudnn/descriptor.h"

namespace tpc::cuda::cudnn {

/// Of four dimensions, as cuDNN wants them.
using Dims = std::array<int64_t, 4>;

/// Strides of a dense row-major tensor.
Dims packed_strides(const Dims& dims);

struct Layout {
  Dims dims = {};
  Dims strides = {};  ///< in elements
};

/// Dense and row-major.
Layout packed(const Dims& dims);
/// The last two dimensions exchanged.
Layout transposed(const Layout& layout);

/// A tensor of a graph, which owns its descriptor.
struct Tensor {
  cudnnBackendDescriptor_t descriptor = nullptr;
  Layout layout;
};

/// Intermediate tensors are f32 and dense unless said otherwise, as is arithmetic; operands of one element are repeated
/// along a dimension. Everything throws CudnnError.
class OperationGraph {
 public:
  explicit OperationGraph(const Library& library) : library_(library) {}

  /// Memory of the caller, 16-byte aligned, by a number that is its own in this graph and below kFirstIntermediate.
  Tensor memory(int64_t id, const Layout& layout, cudnnDataType_t type);
  /// One value of the host's, given when the graph runs.
  Tensor host_value(int64_t id, cudnnDataType_t type);
  Tensor intermediate(const Layout& layout, cudnnDataType_t type = CUDNN_DATA_FLOAT);

  Tensor multiply(const Tensor& x, const Tensor& y) { return pointwise(CUDNN_POINTWISE_MUL, x, y); }
  Tensor subtract(const Tensor& x, const Tensor& y) { return pointwise(CUDNN_POINTWISE_SUB, x, y); }
  Tensor exp(const Tensor& x) { return pointwise(CUDNN_POINTWISE_EXP, x); }
  Tensor log(const Tensor& x) { return pointwise(CUDNN_POINTWISE_LOG, x); }
  void multiply_into(const Tensor& x, const Tensor& y, const Tensor& result);
  void add_into(const Tensor& x, const Tensor& y, const Tensor& result);
  void divide_into(const Tensor& x, const Tensor& y, const Tensor& result);
  void copy_into(const Tensor& x, const Tensor& result);

  /// x[b,h,i,j] where j <= i, or j <= i + keys - queries with numbers of both, and `other` elsewhere.
  Tensor keep_lower(const Tensor& x, const Tensor& other);
  Tensor keep_lower(const Tensor& x, const Tensor& other, const Tensor& queries, const Tensor& keys);

  /// Sums over k of x[b,h,m,k] * y[b,h,k,n]; a y of fewer heads is shared by as many heads of x each.
  Tensor matmul(const Tensor& x, const Tensor& y);
  void matmul_into(const Tensor& x, const Tensor& y, const Tensor& result);

  /// Along the last dimension.
  Tensor row_max(const Tensor& x);
  Tensor row_sum(const Tensor& x);
  /// Sums over whatever result has fewer of.
  void sum_into(const Tensor& x, const Tensor& result);

  /// The same elements seen in another layout.
  Tensor view(const Tensor& x, const Layout& layout, cudnnDataType_t type);

  const Library& library() const { return library_; }
  /// In the order of the calls.
  const std::vector<cudnnBackendDescriptor_t>& operations() const { return operations_; }

  static constexpr int64_t kFirstIntermediate = 100;

 private:
  Tensor tensor(int64_t id, const Layout& layout, cudnnDataType_t type, bool is_intermediate, bool is_host_value);
  Tensor pointwise(cudnnPointwiseMode_t mode, const Tensor& x);
  Tensor pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y);
  /// Inputs that are nullptr are absent, as is an axis below 0.
  void pointwise_into(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* y, const Tensor* choice,
                      const Tensor& result, cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT, int64_t axis = -1);
  Tensor index_along(const Tensor& x, int64_t axis);
  Tensor keep_where_row_reaches(const Tensor& x, const Tensor& other, const Tensor& row, const Tensor& column);
  void reduce_into(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& result);
  cudnnBackendDescriptor_t keep(Descriptor descriptor);

  const Library& library_;
  std::vector<Descriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t next_id_ = kFirstIntermediate;
};

}  // namespace tpc::cuda::cudnn
