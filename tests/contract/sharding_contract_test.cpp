// What holds of every op's sharding rule: each strategy that it allows computes the same as one rank, and what it does
// not allow is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tests/support/op_samples.h"

namespace tpc::testing {
namespace {

std::vector<DeviceMesh> contract_meshes() {
  return {DeviceMesh({{"x", 2}}), DeviceMesh({{"x", 3}}), DeviceMesh({{"x", 2}, {"y", 2}})};
}

std::vector<Shape> shapes_of(const std::vector<TensorType>& types) {
  std::vector<Shape> shapes;
  for (const TensorType& type : types) shapes.push_back(type.shape);
  return shapes;
}

/// A sample with all that the rule says about it.
struct RuledSample {
  const OpSample& sample;
  TypedOp op;
  ShardingRule rule;
  std::vector<Shape> operand_shapes;
  std::vector<Shape> result_shapes;

  explicit RuledSample(const OpSample& sample_)
      : sample(sample_),
        op(sample_.typed()),
        rule(op.op.sharding_rule(op.query())),
        operand_shapes(shapes_of(op.operands)),
        result_shapes(shapes_of(op.results)) {}

  bool is_legal(const std::vector<Strategy>& strategies, const DeviceMesh& mesh) const {
    return !why_illegal(rule, strategies, operand_shapes, result_shapes, mesh);
  }
  NodeSharding sharding(const std::vector<Strategy>& strategies, const DeviceMesh& mesh) const {
    return node_sharding(rule, strategies, operand_shapes, result_shapes, mesh);
  }
  std::optional<std::vector<Strategy>> find(const NodeSharding& wanted, const DeviceMesh& mesh) const {
    return find_strategies(rule, wanted, operand_shapes, result_shapes, mesh);
  }
};

template <class Visit>
void for_each_ruled_sample(Visit&& visit) {
  for (const OpSample& sample : op_samples()) {
    if (op_def(sample.op).sharding_rule == nullptr) continue;
    CAPTURE(sample.text());
    RuledSample ruled(sample);
    CAPTURE(to_string(ruled.rule));
    visit(ruled);
  }
}

/// Calls visit for every choice of one item of `choices` for each of `count` places.
template <class Item, class Visit>
void for_each_choice(const std::vector<std::vector<Item>>& choices, Visit&& visit) {
  std::vector<Item> chosen;
  auto choose = [&](auto&& self) -> void {
    if (chosen.size() == choices.size()) return visit(std::as_const(chosen));
    for (const Item& item : choices[chosen.size()]) {
      chosen.push_back(item);
      self(self);
      chosen.pop_back();
    }
  };
  choose(choose);
}

/// Calls visit for all strategies of all axes that the rule allows, factors in units of 2 included.
template <class Visit>
void for_each_legal(const RuledSample& ruled, const DeviceMesh& mesh, Visit&& visit) {
  std::vector<Strategy> candidates = all_strategies(ruled.rule);
  for (size_t i = 0; i < ruled.rule.factors.size(); ++i) candidates.push_back(Strategy::factor(static_cast<int>(i), 2));
  for_each_choice(std::vector(mesh.num_axes(), candidates), [&](const std::vector<Strategy>& strategies) {
    if (ruled.is_legal(strategies, mesh)) visit(strategies);
  });
}

std::string text_of(const NodeSharding& sharding) {
  std::string text;
  for (const TensorSharding& operand : sharding.operands) text += to_string(operand) + " ";
  text += "->";
  for (const TensorSharding& result : sharding.results) text += " " + to_string(result);
  return text;
}

double largest_difference(const std::vector<GlobalTensor>& a, const std::vector<GlobalTensor>& b) {
  double difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = std::max(difference, relative_difference(a[i], b[i]));
  return difference;
}

std::vector<Placement> placements_of(const TensorType& type) {
  std::vector<Placement> placements{Placement::replicate(), Placement::partial()};
  for (size_t d = 0; d < type.shape.size(); ++d) placements.push_back(Placement::shard(static_cast<int64_t>(d)));
  return placements;
}

NodeSharding on_one_axis(const std::vector<Placement>& placements, size_t num_operands) {
  NodeSharding sharding;
  for (size_t i = 0; i < placements.size(); ++i) {
    (i < num_operands ? sharding.operands : sharding.results).push_back({{placements[i]}});
  }
  return sharding;
}

/// Ops that are linear in operands where their rule says nothing, with the reason.
bool leaves_linearity_unused(OpKind op) {
  return op == OpKind::kSgd;  // jointly linear in weight, gradient and momentum, but weights are never partial sums
}

/// A cast, and what makes bf16 of f32.
bool rounds(const TypedOp& op) {
  auto any = [](const std::vector<TensorType>& types, DType dtype) {
    return std::ranges::any_of(types, [dtype](const TensorType& type) { return type.dtype == dtype; });
  };
  return op.op.kind == OpKind::kCast || (any(op.results, DType::kBF16) && any(op.operands, DType::kF32));
}

}  // namespace

TEST_CASE("every strategy that a rule allows computes what one rank does") {
  constexpr double kTolerance = 1e-9;
  for_each_ruled_sample([&](const RuledSample& ruled) {
    std::vector<GlobalTensor> values = ruled.sample.values();
    std::vector<GlobalTensor> expected = run_unsharded(ruled.op, values, kSampleContext);
    for (const DeviceMesh& mesh : contract_meshes()) {
      for_each_legal(ruled, mesh, [&](const std::vector<Strategy>& strategies) {
        NodeSharding sharding = ruled.sharding(strategies, mesh);
        INFO(to_string(mesh), " ", text_of(sharding));
        std::vector<GlobalTensor> found;
        REQUIRE_NOTHROW(found = run_sharded(ruled.op, values, sharding, mesh, kSampleContext));
        CHECK_LT(largest_difference(found, expected), kTolerance);
      });
    }
  });
}

TEST_CASE("placements of every strategy that a rule allows are found again") {
  for_each_ruled_sample([&](const RuledSample& ruled) {
    for (const DeviceMesh& mesh : contract_meshes()) {
      for_each_choice(std::vector(mesh.num_axes(), all_strategies(ruled.rule)),
                      [&](const std::vector<Strategy>& chosen) {
                        if (!ruled.is_legal(chosen, mesh)) return;
                        NodeSharding sharding = ruled.sharding(chosen, mesh);
                        INFO(to_string(mesh), " ", text_of(sharding));
                        std::optional<std::vector<Strategy>> found = ruled.find(sharding, mesh);
                        REQUIRE(found.has_value());
                        CHECK_EQ(ruled.sharding(*found, mesh), sharding);
                      });
    }
  });
}

TEST_CASE("every factor and linear group of a rule is met by a sample") {
  std::map<std::string_view, std::set<std::string>> factors;
  std::map<std::string_view, std::set<std::string>> split;
  DeviceMesh mesh({{"x", 2}});
  for_each_ruled_sample([&](const RuledSample& ruled) {
    for (size_t i = 0; i < ruled.rule.factors.size(); ++i) {
      const Factor& factor = ruled.rule.factors[i];
      factors[ruled.op.op.name].insert(factor.name);
      if (ruled.is_legal({Strategy::factor(static_cast<int>(i))}, mesh)) split[ruled.op.op.name].insert(factor.name);
    }
    for (size_t i = 0; i < ruled.rule.linear.size(); ++i) {
      CHECK(ruled.is_legal({Strategy::linear(static_cast<int>(i))}, mesh));
    }
  });
  for (const auto& [op, names] : factors) {
    CAPTURE(op);
    CHECK_EQ(names, split[op]);
  }
}

// On two ranks: nothing is accepted that no strategy gives. All placements of all operands and results are asked where
// they are few, and those that differ from a strategy's in one tensor otherwise.
TEST_CASE("placements that a rule does not give are refused") {
  constexpr size_t kMostCombinations = 20000;
  DeviceMesh mesh({{"x", 2}});
  for_each_ruled_sample([&](const RuledSample& ruled) {
    size_t num_operands = ruled.op.operands.size();
    std::vector<std::vector<Placement>> choices;
    size_t combinations = 1;
    for (const std::vector<TensorType>* types : {&ruled.op.operands, &ruled.op.results}) {
      for (const TensorType& type : *types) {
        choices.push_back(placements_of(type));
        combinations *= choices.back().size();
      }
    }
    std::vector<NodeSharding> given;
    for (Strategy strategy : all_strategies(ruled.rule)) {
      if (ruled.is_legal({strategy}, mesh)) given.push_back(ruled.sharding({strategy}, mesh));
    }
    size_t num_wrong = 0;
    auto ask = [&](const NodeSharding& sharding) {
      bool is_given = std::ranges::find(given, sharding) != given.end();
      if (ruled.find(sharding, mesh).has_value() == is_given) return;
      ++num_wrong;
      FAIL_CHECK("wrong answer for ", text_of(sharding));
    };
    if (combinations <= kMostCombinations) {
      for_each_choice(choices,
                      [&](const std::vector<Placement>& placements) { ask(on_one_axis(placements, num_operands)); });
    } else {
      for (const NodeSharding& sharding : given) {
        for (size_t i = 0; i < choices.size(); ++i) {
          NodeSharding changed = sharding;
          TensorSharding& tensor = i < num_operands ? changed.operands[i] : changed.results[i - num_operands];
          for (const Placement& placement : choices[i]) {
            tensor.placements[0] = placement;
            ask(changed);
          }
        }
      }
    }
    CHECK_EQ(num_wrong, 0U);
  });
}

// Partial operands make every result partial only where the rule says so: elsewhere it would compute something else,
// and a rule that left out a linear group would be found here too.
TEST_CASE("partial operands that a rule refuses would give wrong results") {
  DeviceMesh mesh({{"x", 2}});
  for_each_ruled_sample([&](const RuledSample& ruled) {
    // The references do not round, what they stand for does.
    if (leaves_linearity_unused(ruled.sample.op) || rounds(ruled.op)) return;
    std::vector<GlobalTensor> values = ruled.sample.values();
    std::vector<GlobalTensor> expected = run_unsharded(ruled.op, values, kSampleContext);
    std::vector<std::vector<Placement>> choices;
    for (const TensorType& type : ruled.op.operands) {
      choices.push_back({Placement::replicate()});
      if (type.dtype == DType::kF32) choices.back().push_back(Placement::partial());
    }
    for_each_choice(choices, [&](std::vector<Placement> placements) {
      if (std::ranges::none_of(placements, &Placement::is_partial)) return;
      placements.resize(placements.size() + ruled.op.results.size(), Placement::partial());
      NodeSharding sharding = on_one_axis(placements, ruled.op.operands.size());
      INFO(text_of(sharding));
      std::vector<GlobalTensor> found = run_sharded(ruled.op, values, sharding, mesh, kSampleContext);
      bool is_right = largest_difference(found, expected) < 1e-6;
      CHECK_EQ(is_right, ruled.find(sharding, mesh).has_value());
    });
  });
}

TEST_CASE("ranks that split a factor share the work of a heavy op") {
  DeviceMesh mesh({{"x", 2}});
  for_each_ruled_sample([&](const RuledSample& ruled) {
    if (!ruled.op.op.heavy) return;
    double whole = ruled.op.op.cost(ruled.op.query()).flops;
    for (size_t i = 0; i < ruled.rule.factors.size(); ++i) {
      Strategy strategy = Strategy::factor(static_cast<int>(i));
      if (!ruled.is_legal({strategy}, mesh)) continue;
      CAPTURE(ruled.rule.factors[i].name);
      NodeSharding sharding = ruled.sharding({strategy}, mesh);
      double sum = 0;
      for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
        auto local = [&](const std::vector<TensorType>& types, const std::vector<TensorSharding>& shardings) {
          std::vector<TensorType> result = types;
          for (size_t t = 0; t < types.size(); ++t) {
            result[t].shape = local_region(types[t].shape, shardings[t], mesh, mesh.coordinate(rank)).extents();
          }
          return result;
        };
        std::vector<TensorType> operands = local(ruled.op.operands, sharding.operands);
        std::vector<TensorType> results = local(ruled.op.results, sharding.results);
        sum += ruled.op.op.cost({ruled.op.attributes, operands, results}).flops;
      }
      CHECK(sum == doctest::Approx(whole).epsilon(1e-9));
    }
  });
}

}  // namespace tpc::testing
