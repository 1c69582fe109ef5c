// Rows of a table chosen by ids, and the gradient that adds rows back.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& ids = query.operands[0];
  const TensorType& table = query.operands[1];
  require_dtype(ids, DType::kI32, "ids");
  require_float(table, "table");
  require_min_rank(table, 1, "table");
  TensorType result{sum_dtype(query.attributes, table.dtype), ids.shape};
  result.shape.insert(result.shape.end(), table.shape.begin() + 1, table.shape.end());
  require_sizes(result.shape, "result");
  return {result};
}

void gradient(GradBuilder& builder) {
  ValueId dy = builder.grad_of_result(0);
  if (!dy.is_valid() || !builder.needs_grad(1)) return;
  Attributes attributes{{"rows", builder.type(builder.operand(1)).shape[0]}};
  builder.set_grad(1, builder.emit_one(OpKind::kEmbeddingGrad, {builder.operand(0), dy}, std::move(attributes)));
}

// Splitting v leaves each rank some rows of the table: it answers 0 for the others, and the sum is the lookup.
ShardingRule sharding_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.results[0].shape.size());
  std::string ids = letters.substr(0, query.operands[0].shape.size());
  return ShardingRule::einsum(fmt::format("{},v{}->{}", ids, letters.substr(ids.size()), letters)).linear_jointly({1});
}

OpCost cost(const OpQuery& query) {
  double written = static_cast<double>(byte_size(query.results[0]));
  return {0, static_cast<double>(byte_size(query.operands[0])) + written, written};
}

void reference(const ReferenceArgs& args) {
  const ReferenceTensor& ids = args.operands[0];
  const ReferenceTensor& table = args.operands[1];
  const Interval rows = table.region.dims[0];
  const int64_t row_size = table.region.num_elements() / rows.size();
  double* y = args.results[0].data;
  for (int64_t i = 0; i < ids.region.num_elements(); ++i, y += row_size) {
    int64_t id = static_cast<int64_t>(ids.data[i]);
    if (id >= rows.begin && id < rows.end) {
      std::copy_n(table.data + (id - rows.begin) * row_size, row_size, y);
    } else {
      std::fill_n(y, row_size, 0.0);
    }
  }
}

std::vector<TensorType> infer_grad_types(const OpQuery& query) {
  const TensorType& ids = query.operands[0];
  const TensorType& dy = query.operands[1];
  int64_t rows = query.attributes.get_int("rows");
  require_dtype(ids, DType::kI32, "ids");
  require_float(dy, "gradient");
  require_min_rank(dy, ids.shape.size(), "gradient");
  if (rows < 1) throw OpTypeError(fmt::format("\"rows\" must be at least 1, found {}", rows));
  if (!std::equal(ids.shape.begin(), ids.shape.end(), dy.shape.begin())) {
    throw OpTypeError(fmt::format("gradient must begin with the dimensions of ids {}, found {}", to_string(ids.shape),
                                  to_string(dy.shape)));
  }
  TensorType table{DType::kF32, {rows}};
  table.shape.insert(table.shape.end(), dy.shape.begin() + static_cast<int64_t>(ids.shape.size()), dy.shape.end());
  return {table};
}

ShardingRule grad_sharding_rule(const OpQuery& query) {
  std::string letters = dim_letters(query.operands[1].shape.size());
  std::string ids = letters.substr(0, query.operands[0].shape.size());
  return ShardingRule::einsum(fmt::format("{},{}->v{}", ids, letters, letters.substr(ids.size()))).linear_jointly({1});
}

OpCost grad_cost(const OpQuery& query) {
  double dy_bytes = static_cast<double>(byte_size(query.operands[1]));
  return {static_cast<double>(num_elements(query.operands[1].shape)),
          static_cast<double>(byte_size(query.operands[0])) + dy_bytes,
          static_cast<double>(byte_size(query.results[0]))};
}

void grad_reference(const ReferenceArgs& args) {
  const ReferenceTensor& ids = args.operands[0];
  const ReferenceTensor& table = args.results[0];
  const Interval rows = table.region.dims[0];
  const int64_t row_size = table.region.num_elements() / rows.size();
  const double* dy = args.operands[1].data;
  std::fill_n(table.data, table.region.num_elements(), 0.0);
  for (int64_t i = 0; i < ids.region.num_elements(); ++i, dy += row_size) {
    int64_t id = static_cast<int64_t>(ids.data[i]);
    if (id < rows.begin || id >= rows.end) continue;
    double* row = table.data + (id - rows.begin) * row_size;
    for (int64_t k = 0; k < row_size; ++k) row[k] += dy[k];
  }
}

}  // namespace

const OpDef kEmbeddingOp = {
    .kind = OpKind::kEmbedding,
    .name = "embedding",
    .summary = "y[ids..., row...] = table[ids[ids...], row...]; 0 where the id is not a row of the table",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .floats = {{FloatRole::kData}, {FloatRole::kSum}},
};

const OpDef kEmbeddingGradOp = {
    .kind = OpKind::kEmbeddingGrad,
    .name = "embedding_grad",
    .summary = "dtable[v, row...] = sum of dy[i..., row...] over all i with ids[i...] == v",
    .min_operands = 2,
    .max_operands = 2,
    .infer_types = infer_grad_types,
    .gradient = nullptr,
    .sharding_rule = grad_sharding_rule,
    .cost = grad_cost,
    .reference = grad_reference,
    .floats = {{FloatRole::kData}, {FloatRole::kFull}},
};

}  // namespace tpc
