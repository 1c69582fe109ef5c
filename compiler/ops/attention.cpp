// Fused softmax attention with grouped key/value heads (Ainslie et al. 2023), and its gradient from the saved
// log-sum-exp (Dao et al. 2022).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/core/check.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

// q[b,s,a,d], k[b,t,g,d], v[b,t,g,d]; a multiple of g; every query sees at least one key.
void check_attention(std::string_view op, const Attributes& attributes, const TensorType& q, const TensorType& k,
                     const TensorType& v) {
  auto fail = [&](std::string_view what) {
    throw OpTypeError(fmt::format("{} {}, found q {}, k {}, v {}", op, what, to_string(q), to_string(k), to_string(v)));
  };
  for (const TensorType* type : {&q, &k, &v}) {
    if (!is_float(type->dtype) || type->shape.size() != 4) fail("wants f32[batch, sequence, heads, head_dim]");
  }
  if (k != v || q.dtype != k.dtype) fail("wants k and v of one type");
  if (q.shape[0] != k.shape[0]) fail("wants one batch size for q and k");
  if (q.shape[3] != k.shape[3]) fail("wants one head size for q and k");
  if (q.shape[2] % k.shape[2] != 0) fail("wants whole groups of query heads for each key/value head");
  if (attributes.get_bool("causal") && k.shape[1] < q.shape[1])
    fail("is causal and wants a key for each query position");
}

std::vector<TensorType> infer_types(const OpQuery& query) {
  const TensorType& q = query.operands[0];
  check_attention("attention", query.attributes, q, query.operands[1], query.operands[2]);
  return {q, {DType::kF32, {q.shape[0], q.shape[1], q.shape[2]}}};
}

void gradient(GradBuilder& builder) {
  TPC_CHECK(!builder.grad_of_result(1).is_valid(), "lse of attention is kept for its own gradient only");
  ValueId grad = builder.grad_of_result(0);
  if (!grad.is_valid()) return;
  std::vector<ValueId> grads = builder.emit(
      OpKind::kAttentionGrad,
      {grad, builder.operand(0), builder.operand(1), builder.operand(2), builder.result(0), builder.result(1)},
      builder.attributes());
  for (size_t i = 0; i < grads.size(); ++i) {
    if (builder.needs_grad(i)) builder.set_grad(i, grads[i]);
  }
}

/// Which tensors follow the queries (with heads a at dimension 2) and which the keys (with heads g).
enum class Role { kQuery, kKey };

// "heads" divides the query heads of a key/value head that several ranks hold; "s" is context parallelism.
ShardingRule attention_rule(const std::vector<Role>& operands, const std::vector<Role>& results, int64_t group) {
  using Use = std::optional<Factor::Use>;
  auto factor = [&](std::string name, Use of_query, Use of_key, int inside) {
    Factor made;
    made.name = std::move(name);
    for (Role role : operands) made.operands.push_back(role == Role::kQuery ? of_query : of_key);
    for (Role role : results) made.results.push_back(role == Role::kQuery ? of_query : of_key);
    made.inside = inside;
    return made;
  };
  ShardingRule rule;
  rule.factors.push_back(factor("b", Factor::Use{0, 1}, Factor::Use{0, 1}, -1));
  rule.factors.push_back(factor("kv", Factor::Use{2, group}, Factor::Use{2, 1}, -1));
  rule.factors.push_back(factor("heads", Factor::Use{2, 1}, std::nullopt, rule.find_factor("kv")));
  rule.factors.push_back(factor("s", Factor::Use{1, 1}, std::nullopt, -1));
  return rule;
}

ShardingRule sharding_rule(const OpQuery& query) {
  int64_t group = query.operands[0].shape[2] / query.operands[1].shape[2];
  return attention_rule({Role::kQuery, Role::kKey, Role::kKey}, {Role::kQuery, Role::kQuery}, group);
}

/// Products of one query with one key, over all heads: half of them are masked away when causal.
double num_score_terms(const Attributes& attributes, const TensorType& q, const TensorType& k) {
  double pairs = static_cast<double>(num_elements(q.shape)) * static_cast<double>(k.shape[1]);
  return attributes.get_bool("causal") ? pairs / 2 : pairs;
}

void add_bytes(const OpQuery& query, OpCost& cost) {
  for (const TensorType& type : query.operands) cost.bytes_read += static_cast<double>(byte_size(type));
  for (const TensorType& type : query.results) cost.bytes_written += static_cast<double>(byte_size(type));
}

OpCost cost(const OpQuery& query) {
  // Two products (q k', p v), a multiplication and an addition each.
  OpCost cost{4 * num_score_terms(query.attributes, query.operands[0], query.operands[1]), 0, 0};
  add_bytes(query, cost);
  return cost;
}

/// Walks the queries of a region with the keys that each one sees; all indices of the visit are local, heads and
/// positions are compared as global ones.
struct QueryWalk {
  const ReferenceTensor& q;
  const ReferenceTensor& k;
  bool causal = false;

  int64_t head_dim() const { return q.type.shape[3]; }

  /// visit(query row, first key row, key row stride, number of keys seen), in units of rows of d elements.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const int64_t group = q.type.shape[2] / k.type.shape[2];
    const int64_t shift = k.type.shape[1] - q.type.shape[1];
    const int64_t num_keys = k.region.dims[1].size();
    const int64_t kv_heads = k.region.dims[2].size();
    int64_t row = 0;
    for (int64_t b = 0; b < q.region.dims[0].size(); ++b) {
      for (int64_t s = q.region.dims[1].begin; s < q.region.dims[1].end; ++s) {
        int64_t seen = causal ? std::min(num_keys, s + shift + 1) : num_keys;
        for (int64_t a = q.region.dims[2].begin; a < q.region.dims[2].end; ++a, ++row) {
          int64_t kv_head = a / group - k.region.dims[2].begin;
          visit(row, b * num_keys * kv_heads + kv_head, kv_heads, seen);
        }
      }
    }
  }
};

double dot(const double* x, const double* y, int64_t d) {
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) sum += x[i] * y[i];
  return sum;
}

void add_scaled(double* y, double factor, const double* x, int64_t d) {
  for (int64_t i = 0; i < d; ++i) y[i] += factor * x[i];
}

void reference(const ReferenceArgs& args) {
  const double scale = args.attributes.get_double("scale");
  QueryWalk walk{args.operands[0], args.operands[1], args.attributes.get_bool("causal")};
  const int64_t d = walk.head_dim();
  const double* v = args.operands[2].data;
  std::vector<double> scores;
  walk.for_each([&](int64_t row, int64_t first_key, int64_t key_stride, int64_t seen) {
    const double* q = walk.q.data + row * d;
    double* o = args.results[0].data + row * d;
    scores.resize(static_cast<size_t>(seen));
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < seen; ++t) {
      double score = scale * dot(q, walk.k.data + (first_key + t * key_stride) * d, d);
      scores[static_cast<size_t>(t)] = score;
      largest = std::max(largest, score);
    }
    double sum = 0;
    for (double score : scores) sum += std::exp(score - largest);
    double lse = largest + std::log(sum);
    std::fill_n(o, d, 0.0);
    for (int64_t t = 0; t < seen; ++t) {
      add_scaled(o, std::exp(scores[static_cast<size_t>(t)] - lse), v + (first_key + t * key_stride) * d, d);
    }
    args.results[1].data[row] = lse;
  });
}

std::vector<TensorType> infer_grad_types(const OpQuery& query) {
  const TensorType& q = query.operands[1];
  const TensorType& k = query.operands[2];
  check_attention("attention_grad", query.attributes, q, k, query.operands[3]);
  TensorType lse{DType::kF32, {q.shape[0], q.shape[1], q.shape[2]}};
  if (query.operands[0] != q || query.operands[4] != q || query.operands[5] != lse) {
    throw OpTypeError(fmt::format("attention_grad wants do and o like q {} and lse {}, found do {}, o {}, lse {}",
                                  to_string(q), to_string(lse), to_string(query.operands[0]),
                                  to_string(query.operands[4]), to_string(query.operands[5])));
  }
  TensorType key{sum_dtype(query.attributes, k.dtype), k.shape};
  return {q, key, key};
}

ShardingRule grad_sharding_rule(const OpQuery& query) {
  int64_t group = query.operands[1].shape[2] / query.operands[2].shape[2];
  return attention_rule({Role::kQuery, Role::kQuery, Role::kKey, Role::kKey, Role::kQuery, Role::kQuery},
                        {Role::kQuery, Role::kKey, Role::kKey}, group)
      .linear_jointly({0});
}

OpCost grad_cost(const OpQuery& query) {
  // Five products (q k' again, do v', p' do, ds k, ds' q), a multiplication and an addition each.
  OpCost cost{10 * num_score_terms(query.attributes, query.operands[1], query.operands[2]), 0, 0};
  add_bytes(query, cost);
  return cost;
}

// With p = exp(scale * q k' - lse): dv = p' do, ds = p * (do v' - sum over d of do * o), dq = scale * ds k,
// dk = scale * ds' q. Keys without a query of this region get 0.
void grad_reference(const ReferenceArgs& args) {
  const double scale = args.attributes.get_double("scale");
  QueryWalk walk{args.operands[1], args.operands[2], args.attributes.get_bool("causal")};
  const int64_t d = walk.head_dim();
  for (const ReferenceTensor& result : args.results) std::fill_n(result.data, result.region.num_elements(), 0.0);
  walk.for_each([&](int64_t row, int64_t first_key, int64_t key_stride, int64_t seen) {
    const double* grad = args.operands[0].data + row * d;
    const double* q = walk.q.data + row * d;
    const double lse = args.operands[5].data[row];
    const double grad_dot_o = dot(grad, args.operands[4].data + row * d, d);
    for (int64_t t = 0; t < seen; ++t) {
      const int64_t key = (first_key + t * key_stride) * d;
      const double p = std::exp(scale * dot(q, walk.k.data + key, d) - lse);
      const double ds = p * (dot(grad, args.operands[3].data + key, d) - grad_dot_o);
      add_scaled(args.results[0].data + row * d, scale * ds, walk.k.data + key, d);
      add_scaled(args.results[1].data + key, scale * ds, q, d);
      add_scaled(args.results[2].data + key, p, grad, d);
    }
  });
}

}  // namespace

const OpDef kAttentionOp = {
    .kind = OpKind::kAttention,
    .name = "attention",
    .summary =
        "o[b,s,a,d] = sum_t softmax_t(scale * sum_d q[b,s,a,d] * k[b,t,g,d]) * v[b,t,g,d], g = a / (heads / kv "
        "heads), t <= s + (keys - queries) when causal; lse[b,s,a] = log sum_t exp of the scaled scores",
    .min_operands = 3,
    .max_operands = 3,
    .num_results = 2,
    .infer_types = infer_types,
    .gradient = gradient,
    .sharding_rule = sharding_rule,
    .cost = cost,
    .reference = reference,
    .heavy = true,
    .floats = {{FloatRole::kData}, {FloatRole::kData, FloatRole::kFull}},
};

const OpDef kAttentionGradOp = {
    .kind = OpKind::kAttentionGrad,
    .name = "attention_grad",
    .summary =
        "with p = exp(scale * q k' - lse): dv = p' do, ds = p * (do v' - sum_d do * o), dq = scale * ds k, "
        "dk = scale * ds' q",
    .min_operands = 6,
    .max_operands = 6,
    .num_results = 3,
    .infer_types = infer_grad_types,
    .gradient = nullptr,
    .sharding_rule = grad_sharding_rule,
    .cost = grad_cost,
    .reference = grad_reference,
    .heavy = true,
    .floats = {{FloatRole::kData, FloatRole::kData, FloatRole::kData, FloatRole::kData, FloatRole::kData,
                FloatRole::kFull},
               {FloatRole::kData, FloatRole::kSum}},
};

}  // namespace tpc
