#include "runtime/cuda/cudnn/operation_graph.h"

#include <utility>

namespace tpc::cuda::cudnn {
namespace {

constexpr int64_t kAlignment = 16;
constexpr int64_t kRows = 2;
constexpr int64_t kColumns = 3;

Layout last_dim_of_one(const Tensor& x) {
  Dims dims = x.layout.dims;
  dims[kColumns] = 1;
  return packed(dims);
}

}  // namespace

Dims packed_strides(const Dims& dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

Layout packed(const Dims& dims) { return {dims, packed_strides(dims)}; }

Layout transposed(const Layout& layout) {
  Layout result = layout;
  std::swap(result.dims[2], result.dims[3]);
  std::swap(result.strides[2], result.strides[3]);
  return result;
}

cudnnBackendDescriptor_t OperationGraph::keep(Descriptor descriptor) {
  return descriptors_.emplace_back(std::move(descriptor)).get();
}

Tensor OperationGraph::tensor(int64_t id, const Layout& layout, cudnnDataType_t type, bool is_intermediate,
                              bool is_host_value) {
  Descriptor made(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, layout.dims);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, layout.strides);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_intermediate);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, is_host_value);
  made.finalize("tensor");
  return {keep(std::move(made)), layout};
}

Tensor OperationGraph::memory(int64_t id, const Layout& layout, cudnnDataType_t type) {
  return tensor(id, layout, type, /*is_intermediate=*/false, /*is_host_value=*/false);
}

Tensor OperationGraph::host_value(int64_t id, cudnnDataType_t type) {
  return tensor(id, packed({1, 1, 1, 1}), type, /*is_intermediate=*/false, /*is_host_value=*/true);
}

Tensor OperationGraph::intermediate(const Layout& layout, cudnnDataType_t type) {
  return tensor(next_id_++, layout, type, /*is_intermediate=*/true, /*is_host_value=*/false);
}

void OperationGraph::pointwise_into(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* y, const Tensor* choice,
                                    const Tensor& result, cudnnDataType_t arithmetic, int64_t axis) {
  Descriptor kind(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  if (axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  kind.finalize("pointwise kind");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(kind)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  if (y != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, y->descriptor);
  if (choice != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choice->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result.descriptor);
  operation.finalize("pointwise operation");
  operations_.push_back(keep(std::move(operation)));
}

Tensor OperationGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x) {
  Tensor result = intermediate(packed(x.layout.dims));
  pointwise_into(mode, x, nullptr, nullptr, result);
  return result;
}

Tensor OperationGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y) {
  Tensor result = intermediate(packed(x.layout.dims));
  pointwise_into(mode, x, &y, nullptr, result);
  return result;
}

void OperationGraph::multiply_into(const Tensor& x, const Tensor& y, const Tensor& result) {
  pointwise_into(CUDNN_POINTWISE_MUL, x, &y, nullptr, result);
}

void OperationGraph::add_into(const Tensor& x, const Tensor& y, const Tensor& result) {
  pointwise_into(CUDNN_POINTWISE_ADD, x, &y, nullptr, result);
}

void OperationGraph::divide_into(const Tensor& x, const Tensor& y, const Tensor& result) {
  pointwise_into(CUDNN_POINTWISE_DIV, x, &y, nullptr, result);
}

void OperationGraph::copy_into(const Tensor& x, const Tensor& result) {
  pointwise_into(CUDNN_POINTWISE_IDENTITY, x, nullptr, nullptr, result);
}

Tensor OperationGraph::index_along(const Tensor& x, int64_t axis) {
  Tensor index = intermediate(packed(x.layout.dims), CUDNN_DATA_INT32);
  pointwise_into(CUDNN_POINTWISE_GEN_INDEX, x, nullptr, nullptr, index, CUDNN_DATA_FLOAT, axis);
  return index;
}

// The engines know attention by the order of these operations: both indices, what is added to the row, the comparison.
Tensor OperationGraph::keep_where_row_reaches(const Tensor& x, const Tensor& other, const Tensor& row,
                                              const Tensor& column) {
  Tensor is_kept = intermediate(packed(x.layout.dims), CUDNN_DATA_BOOLEAN);
  pointwise_into(CUDNN_POINTWISE_CMP_GE, row, &column, nullptr, is_kept, CUDNN_DATA_BOOLEAN);
  Tensor kept = intermediate(packed(x.layout.dims));
  pointwise_into(CUDNN_POINTWISE_BINARY_SELECT, x, &other, &is_kept, kept);
  return kept;
}

Tensor OperationGraph::keep_lower(const Tensor& x, const Tensor& other) {
  Tensor row = index_along(x, kRows);
  Tensor column = index_along(x, kColumns);
  return keep_where_row_reaches(x, other, row, column);
}

Tensor OperationGraph::keep_lower(const Tensor& x, const Tensor& other, const Tensor& queries, const Tensor& keys) {
  Tensor row = index_along(x, kRows);
  Tensor column = index_along(x, kColumns);
  Tensor with_keys = intermediate(packed(x.layout.dims), CUDNN_DATA_INT32);
  pointwise_into(CUDNN_POINTWISE_ADD, row, &keys, nullptr, with_keys, CUDNN_DATA_INT32, kColumns);
  Tensor shifted = intermediate(packed(x.layout.dims), CUDNN_DATA_INT32);
  pointwise_into(CUDNN_POINTWISE_SUB, with_keys, &queries, nullptr, shifted, CUDNN_DATA_INT32, kColumns);
  return keep_where_row_reaches(x, other, shifted, column);
}

Tensor OperationGraph::matmul(const Tensor& x, const Tensor& y) {
  Dims dims = x.layout.dims;
  dims[kColumns] = y.layout.dims[kColumns];
  Tensor result = intermediate(packed(dims));
  matmul_into(x, y, result);
  return result;
}

void OperationGraph::matmul_into(const Tensor& x, const Tensor& y, const Tensor& result) {
  Descriptor kind(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.finalize("matmul kind");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, y.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(kind)));
  operation.finalize("matmul operation");
  operations_.push_back(keep(std::move(operation)));
}

void OperationGraph::reduce_into(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& result) {
  Descriptor kind(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  kind.finalize("reduction kind");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(kind)));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result.descriptor);
  operation.finalize("reduction operation");
  operations_.push_back(keep(std::move(operation)));
}

Tensor OperationGraph::row_max(const Tensor& x) {
  Tensor result = intermediate(last_dim_of_one(x));
  reduce_into(CUDNN_REDUCE_TENSOR_MAX, x, result);
  return result;
}

Tensor OperationGraph::row_sum(const Tensor& x) {
  Tensor result = intermediate(last_dim_of_one(x));
  reduce_into(CUDNN_REDUCE_TENSOR_ADD, x, result);
  return result;
}

void OperationGraph::sum_into(const Tensor& x, const Tensor& result) {
  reduce_into(CUDNN_REDUCE_TENSOR_ADD, x, result);
}

Tensor OperationGraph::view(const Tensor& x, const Layout& layout, cudnnDataType_t type) {
  Tensor result = intermediate(layout, type);
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result.descriptor);
  operation.finalize("reshape operation");
  operations_.push_back(keep(std::move(operation)));
  return result;
}

}  // namespace tpc::cuda::cudnn
