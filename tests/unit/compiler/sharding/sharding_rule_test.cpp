#include "compiler/sharding/sharding_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "compiler/core/check.h"

namespace tpc {
namespace {

DeviceMesh mesh_of(const std::string& text) { return parse_mesh(text).value(); }

struct Example {
  std::string name;
  ShardingRule rule;
  std::vector<Shape> operands;
  std::vector<Shape> results;
};

ShardingRule contraction() {
  ShardingRule rule = ShardingRule::einsum("bsh,fh->bsf");
  rule.linear_in_each(std::vector<int>{0, 1});
  return rule;
}

ShardingRule bias_add() {
  ShardingRule rule = ShardingRule::einsum("bsf,f->bsf");
  rule.linear_jointly({0, 1});
  return rule;
}

// q[b,s,a,d], k[b,t,g,d] -> o[b,s,a,d]: kv groups may be split, and query heads inside them.
ShardingRule grouped_attention(int64_t heads_per_group) {
  using Use = Factor::Use;
  ShardingRule rule;
  rule.factors.push_back({"b", {Use{0, 1}, Use{0, 1}}, {Use{0, 1}}, ReduceOp::kSum, -1});
  rule.factors.push_back({"kv", {Use{2, heads_per_group}, Use{2, 1}}, {Use{2, heads_per_group}}, ReduceOp::kSum, -1});
  rule.factors.push_back({"heads", {Use{2, 1}, std::nullopt}, {Use{2, 1}}, ReduceOp::kSum, 1});
  return rule;
}

// The gradient of k: summed over the query heads of a group.
ShardingRule key_gradient(int64_t heads_per_group) {
  ShardingRule rule = grouped_attention(heads_per_group);
  rule.factors[1].results = {Factor::Use{2, 1}};
  rule.factors[2].results = {std::nullopt};
  return rule;
}

// A rule whose result lacks the split factor and takes the maximum over it.
ShardingRule row_max() {
  ShardingRule rule = ShardingRule::einsum("bv->b");
  rule.factors[1].reduce = ReduceOp::kMax;
  return rule;
}

std::vector<Example> examples() {
  return {
      {"contraction", contraction(), {{4, 6, 8}, {12, 8}}, {{4, 6, 12}}},
      {"uneven contraction", contraction(), {{3, 5, 7}, {9, 7}}, {{3, 5, 9}}},
      {"bias", bias_add(), {{2, 3, 8}, {8}}, {{2, 3, 8}}},
      {"grouped attention", grouped_attention(4), {{2, 5, 16, 3}, {2, 5, 4, 3}}, {{2, 5, 16, 3}}},
      {"uneven grouped attention", grouped_attention(4), {{2, 5, 12, 3}, {2, 5, 3, 3}}, {{2, 5, 12, 3}}},
      {"key gradient", key_gradient(2), {{2, 5, 8, 3}, {2, 5, 4, 3}}, {{2, 5, 4, 3}}},
      {"row maximum", row_max(), {{4, 9}}, {{4}}},
      {"norm", ShardingRule::einsum("bsh,h->bsh,bs", "h"), {{4, 6, 8}, {8}}, {{4, 6, 8}, {4, 6}}},
      {"nothing to split", ShardingRule{}, {{}}, {{}}},
  };
}

std::vector<std::vector<Strategy>> all_choices(const ShardingRule& rule, const DeviceMesh& mesh) {
  std::vector<std::vector<Strategy>> choices{{}};
  for (size_t axis = 0; axis < mesh.num_axes(); ++axis) {
    std::vector<std::vector<Strategy>> longer;
    for (const auto& prefix : choices) {
      for (Strategy strategy : all_strategies(rule)) {
        longer.push_back(prefix);
        longer.back().push_back(strategy);
        if (strategy.kind != Strategy::Kind::kFactor) continue;
        longer.push_back(prefix);
        longer.back().push_back(Strategy::factor(strategy.index, /*unit=*/2));
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

std::string text_of(const NodeSharding& sharding) {
  std::string text;
  for (const TensorSharding& operand : sharding.operands) text += to_string(operand) + " ";
  text += "->";
  for (const TensorSharding& result : sharding.results) text += " " + to_string(result);
  return text;
}

std::string one_axis(const ShardingRule& rule, Strategy strategy) {
  NodeSharding sharding;
  for (size_t i = 0; i < rule.factors[0].operands.size(); ++i) {
    sharding.operands.push_back({{operand_placement(rule, strategy, i)}});
  }
  for (size_t i = 0; i < rule.factors[0].results.size(); ++i) {
    sharding.results.push_back({{result_placement(rule, strategy, i)}});
  }
  return text_of(sharding);
}

TEST_CASE("sharding_rule: letters become factors in order of appearance") {
  ShardingRule rule = ShardingRule::einsum("bsh,fh->bsf");
  REQUIRE(rule.factors.size() == 4);
  CHECK(rule.factors[0].name == "b");
  CHECK(rule.factors[3].name == "f");
  CHECK(rule.find_factor("h") == 2);
  CHECK(rule.find_factor("x") == -1);
  const Factor& h = rule.factors[2];
  CHECK(h.operands == std::vector<std::optional<Factor::Use>>{Factor::Use{2, 1}, Factor::Use{1, 1}});
  CHECK(h.results == std::vector<std::optional<Factor::Use>>{std::nullopt});
  CHECK(rule.linear.empty());
}

TEST_CASE("sharding_rule: fixed letters, several results and result-only letters") {
  ShardingRule norm = ShardingRule::einsum("bsh,h->bsh,bs", "h");
  CHECK(norm.find_factor("h") == -1);
  CHECK(norm.factors[1].results == std::vector<std::optional<Factor::Use>>{Factor::Use{1, 1}, Factor::Use{1, 1}});

  ShardingRule broadcast = ShardingRule::einsum("h->bh");
  CHECK(one_axis(broadcast, Strategy::factor(broadcast.find_factor("b"))) == "[R] -> [S(0)]");
  CHECK_THROWS_AS(ShardingRule::einsum("bsh"), InternalError);
}

TEST_CASE("sharding_rule: text has one part a factor") {
  CHECK(to_string(contraction()) ==
        "b: 0:0 1:- -> 0:0; s: 0:1 1:- -> 0:1; h: 0:2 1:1 -> 0:-; f: 0:- 1:0 -> 0:2; linear {0}; linear {1}");
  CHECK(to_string(bias_add()) == "b: 0:0 1:- -> 0:0; s: 0:1 1:- -> 0:1; f: 0:2 1:0 -> 0:2; linear {0, 1}");
  CHECK(to_string(grouped_attention(4)).find("kv: 0:2/4 1:2 -> 0:2/4") != std::string::npos);
}

TEST_CASE("sharding_rule: strategies of a linear layer") {
  ShardingRule rule = contraction();
  auto factor = [&](const char* name) { return Strategy::factor(rule.find_factor(name)); };
  CHECK(all_strategies(rule).size() == 7);
  CHECK(one_axis(rule, Strategy::replicate()) == "[R] [R] -> [R]");
  CHECK(one_axis(rule, factor("b")) == "[S(0)] [R] -> [S(0)]");
  CHECK(one_axis(rule, factor("f")) == "[R] [S(0)] -> [S(2)]");       // column-parallel
  CHECK(one_axis(rule, factor("h")) == "[S(2)] [S(1)] -> [P(sum)]");  // row-parallel
  CHECK(one_axis(rule, Strategy::linear(0)) == "[P(sum)] [R] -> [P(sum)]");
  CHECK(one_axis(rule, Strategy::linear(1)) == "[R] [P(sum)] -> [P(sum)]");
}

TEST_CASE("sharding_rule: a maximum leaves partial maxima") {
  ShardingRule rule = row_max();
  CHECK(one_axis(rule, Strategy::factor(rule.find_factor("v"))) == "[S(1)] -> [P(max)]");
}

TEST_CASE("sharding_rule: a replicated bias never meets a partial sum") {
  ShardingRule rule = bias_add();
  DeviceMesh mesh = mesh_of("[tp=2]");
  std::vector<Shape> operands{{2, 3, 8}, {8}};
  std::vector<Shape> results{{2, 3, 8}};
  TensorSharding partial{{Placement::partial()}};
  TensorSharding replicated{{Placement::replicate()}};
  CHECK(find_strategies(rule, {{partial, partial}, {partial}}, operands, results, mesh));
  CHECK_FALSE(find_strategies(rule, {{partial, replicated}, {partial}}, operands, results, mesh));
  CHECK_FALSE(find_strategies(rule, {{partial, partial}, {replicated}}, operands, results, mesh));
}

TEST_CASE("sharding_rule: find_strategies inverts node_sharding") {
  for (const Example& example : examples()) {
    for (std::string mesh_text : {"[tp=2]", "[tp=3]", "[dp=2, tp=2]"}) {
      DeviceMesh mesh = mesh_of(mesh_text);
      int legal = 0;
      for (const std::vector<Strategy>& choice : all_choices(example.rule, mesh)) {
        if (why_illegal(example.rule, choice, example.operands, example.results, mesh)) continue;
        ++legal;
        NodeSharding sharding = node_sharding(example.rule, choice, example.operands, example.results, mesh);
        INFO(example.name << " on " << mesh_text << ": " << text_of(sharding));
        auto found = find_strategies(example.rule, sharding, example.operands, example.results, mesh);
        REQUIRE(found.has_value());
        CHECK(node_sharding(example.rule, *found, example.operands, example.results, mesh) == sharding);
        for (size_t i = 0; i < example.operands.size(); ++i) {
          CHECK_FALSE(why_illegal(example.operands[i], sharding.operands[i], mesh));
        }
      }
      CHECK(legal >= 1);
    }
  }
}

// Every combination of placements on one axis: accepted exactly when a strategy makes it.
TEST_CASE("sharding_rule: find_strategies refuses what no strategy makes") {
  DeviceMesh mesh = mesh_of("[tp=2]");
  std::vector<Placement> placements{Placement::replicate(), Placement::partial(), Placement::partial(ReduceOp::kMax),
                                    Placement::shard(0),    Placement::shard(1),  Placement::shard(2)};
  for (const auto& [rule, operands, results] :
       {std::tuple(contraction(), std::vector<Shape>{{4, 6, 8}, {12, 8}}, std::vector<Shape>{{4, 6, 12}}),
        std::tuple(bias_add(), std::vector<Shape>{{2, 4, 8}, {8}}, std::vector<Shape>{{2, 4, 8}})}) {
    std::set<std::string> made;
    for (Strategy strategy : all_strategies(rule)) {
      made.insert(text_of(node_sharding(rule, std::vector<Strategy>{strategy}, operands, results, mesh)));
    }
    size_t accepted = 0;
    for (const Placement& a : placements) {
      for (const Placement& b : placements) {
        for (const Placement& c : placements) {
          NodeSharding sharding{{{{a}}, {{b}}}, {{{c}}}};
          bool found = find_strategies(rule, sharding, operands, results, mesh).has_value();
          INFO(text_of(sharding));
          CHECK(found == made.contains(text_of(sharding)));
          accepted += found ? 1 : 0;
        }
      }
    }
    CHECK(accepted == made.size());
  }
}

TEST_CASE("sharding_rule: illegal strategies say why") {
  ShardingRule rule = contraction();
  std::vector<Shape> operands{{4, 6, 8}, {3, 8}};
  std::vector<Shape> results{{4, 6, 3}};
  Strategy column = Strategy::factor(rule.find_factor("f"));
  CHECK(why_illegal(rule, std::vector<Strategy>{column}, operands, results, mesh_of("[tp=4]")) ==
        "axis \"tp\" (size 4) does not split dimension 0 (size 3)");
  CHECK_FALSE(why_illegal(rule, std::vector<Strategy>{column}, operands, results, mesh_of("[tp=3]")));

  ShardingRule attention = grouped_attention(4);
  std::vector<Strategy> reversed{Strategy::factor(attention.find_factor("heads")),
                                 Strategy::factor(attention.find_factor("kv"))};
  CHECK(why_illegal(attention, reversed, std::vector<Shape>{{2, 5, 16, 3}, {2, 5, 4, 3}},
                    std::vector<Shape>{{2, 5, 16, 3}},
                    mesh_of("[dp=2, tp=2]")) == "\"heads\" may be split only inside \"kv\", by axes after it");
}

TEST_CASE("sharding_rule: kv heads on one sub-axis and query heads on both") {
  DeviceMesh mesh = mesh_of("[tp.0=8, tp.1=2]");
  std::vector<Shape> operands{{2, 5, 64, 3}, {2, 5, 8, 3}};
  ShardingRule forward = grouped_attention(8);
  std::vector<Strategy> choice{Strategy::factor(forward.find_factor("kv")),
                               Strategy::factor(forward.find_factor("heads"))};
  CHECK(text_of(node_sharding(forward, choice, operands, std::vector<Shape>{{2, 5, 64, 3}}, mesh)) ==
        "[S(2), S(2)] [S(2), R] -> [S(2), S(2)]");
  // Each rank adds the terms of its query heads: one reduction over the inner sub-axis.
  CHECK(text_of(node_sharding(key_gradient(8), choice, operands, std::vector<Shape>{{2, 5, 8, 3}}, mesh)) ==
        "[S(2), S(2)] [S(2), R] -> [S(2), P(sum)]");
}

TEST_CASE("sharding_rule: a factor split in units keeps them whole in every tensor") {
  ShardingRule rule = contraction();
  std::vector<Strategy> choice{Strategy::factor(rule.find_factor("f"), /*unit=*/4)};
  CHECK(text_of(node_sharding(rule, choice, std::vector<Shape>{{2, 5, 8}, {32, 8}}, std::vector<Shape>{{2, 5, 32}},
                              mesh_of("[tp=3]"))) == "[R] [S(0:4)] -> [S(2:4)]");
}

TEST_CASE("sharding_rule: whole kv groups where they do not divide") {
  DeviceMesh mesh = mesh_of("[tp=3]");
  ShardingRule rule = grouped_attention(4);
  std::vector<Strategy> choice{Strategy::factor(rule.find_factor("kv"))};
  CHECK(text_of(node_sharding(rule, choice, std::vector<Shape>{{2, 5, 32, 3}, {2, 5, 8, 3}},
                              std::vector<Shape>{{2, 5, 32, 3}}, mesh)) == "[S(2:4)] [S(2)] -> [S(2:4)]");
}

}  // namespace
}  // namespace tpc
