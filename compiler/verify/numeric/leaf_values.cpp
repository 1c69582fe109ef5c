#include "compiler/verify/numeric/leaf_values.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

/// What an integer tensor is read as.
struct IntegerUse {
  int64_t rows = 0;
  std::optional<int64_t> ignored;
};

/// By tensor; what is said of the result of a slice or the like holds of its operand.
std::vector<IntegerUse> integer_uses(const Plan& plan) {
  std::vector<IntegerUse> uses(plan.tensors.size());
  auto use = [&](int tensor) -> IntegerUse& { return uses[static_cast<size_t>(tensor)]; };
  auto type = [&](int tensor) -> const TensorType& { return plan.tensors[static_cast<size_t>(tensor)].type; };
  auto has_rows = [&](int tensor, int64_t rows) { use(tensor).rows = std::max(use(tensor).rows, rows); };
  for (auto step = plan.steps.rbegin(); step != plan.steps.rend(); ++step) {
    switch (step->op) {
      case OpKind::kEmbedding:
        has_rows(step->operands[0], type(step->operands[1]).shape[0]);
        break;
      case OpKind::kEmbeddingGrad:
        has_rows(step->operands[0], type(step->results[0]).shape[0]);
        break;
      case OpKind::kSoftmaxStats:
      case OpKind::kSoftmaxStatsGrad:
        has_rows(step->operands[1], type(step->operands[0]).shape.back());
        break;
      case OpKind::kTokenLoss:
      case OpKind::kTokenLossGrad:
        use(step->operands[1]).ignored = step->attributes.get_int("ignore_index");
        break;
      default:
        for (int operand : step->operands) {
          for (int result : step->results) {
            if (type(operand).dtype != DType::kI32 || type(result).dtype != DType::kI32) continue;
            has_rows(operand, use(result).rows);
            if (use(result).ignored) use(operand).ignored = use(result).ignored;
          }
        }
    }
  }
  return uses;
}

/// All rows in another order, again and again.
std::vector<Element> ids(int64_t count, const IntegerUse& use, uint64_t seed) {
  std::vector<Element> values;
  std::vector<int64_t> rows(static_cast<size_t>(std::max<int64_t>(1, use.rows)));
  uint64_t drawn = seed;
  while (static_cast<int64_t>(values.size()) < count) {
    std::iota(rows.begin(), rows.end(), 0);
    for (size_t i = rows.size(); i > 1; --i) {
      drawn = mixed(drawn);
      std::swap(rows[i - 1], rows[drawn % i]);
    }
    for (int64_t row : rows) values.push_back(of_integer(row));
  }
  values.resize(static_cast<size_t>(count));
  if (!use.ignored || count < 2) return values;
  // One of four, but never all.
  constexpr uint64_t kOneOf = 4;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mixed(seed ^ mixed(i)) % kOneOf == 0 && i != seed % values.size()) values[i] = of_integer(*use.ignored);
  }
  return values;
}

}  // namespace

LeafValues::LeafValues(const Plan& one_rank, uint64_t seed) : seed_(seed) {
  std::vector<IntegerUse> uses = integer_uses(one_rank);
  for (size_t t = 0; t < one_rank.tensors.size(); ++t) {
    const PlanTensor& leaf = one_rank.tensors[t];
    if (!persists(leaf.role) || leaf.type.dtype != DType::kI32) continue;
    integers_[leaf.name] = ids(num_elements(leaf.type.shape), uses[t], hash_of(leaf.name, seed));
  }
}

std::vector<Element> LeafValues::part(const PlanTensor& leaf, const Region& region) const {
  std::vector<Element> values;
  uint64_t key = hash_of(leaf.name, seed_);
  auto whole = integers_.find(leaf.name);
  IndexLoop loop(dim_letters(region.dims.size()), region);
  loop.run([&](const int64_t*, const int64_t* index) {
    size_t position = 0;
    for (size_t d = 0; d < region.dims.size(); ++d)
      position = position * static_cast<size_t>(leaf.type.shape[d]) + static_cast<size_t>(index[d]);
    values.push_back(whole != integers_.end() ? whole->second.at(position)
                                              : element_of_hash(mixed(key ^ mixed(position))));
  });
  return values;
}

}  // namespace tpc::verify
