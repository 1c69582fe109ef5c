// Formulas that gradients and shards cannot confirm: what fused ops compute, written out naively.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/simulated_ranks.h"

namespace tpc::testing {
namespace {

GlobalTensor normal(Shape shape, std::string_view name) {
  return random_normal_tensor({DType::kF32, std::move(shape)}, 1, name);
}

double at(const GlobalTensor& tensor, std::initializer_list<int64_t> index) {
  Shape strides = row_major_strides(tensor.type.shape);
  size_t offset = 0;
  size_t d = 0;
  for (int64_t i : index) offset += static_cast<size_t>(i * strides[d++]);
  return tensor.data.at(offset);
}

std::vector<GlobalTensor> run(const OpDef& op, const Attributes& attributes,
                              const std::vector<GlobalTensor>& operands) {
  std::vector<TensorType> types;
  for (const GlobalTensor& operand : operands) types.push_back(operand.type);
  return run_unsharded(typed_op(op, attributes, types), operands);
}

}  // namespace

TEST_CASE("attention averages values by softmax of scaled scores, heads grouped, the future masked") {
  constexpr int64_t kQueries = 3;
  constexpr int64_t kKeys = 5;
  GlobalTensor q = normal({2, kQueries, 4, 3}, "q");
  GlobalTensor k = normal({2, kKeys, 2, 3}, "k");
  GlobalTensor v = normal({2, kKeys, 2, 3}, "v");
  for (bool causal : {false, true}) {
    std::vector<GlobalTensor> results = run(kAttentionOp, {{"causal", causal}, {"scale", 0.6}}, {q, k, v});
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t s = 0; s < kQueries; ++s) {
        for (int64_t a = 0; a < 4; ++a) {
          // Heads 0 and 1 share the first key/value head; the last query is at the last key.
          int64_t g = a < 2 ? 0 : 1;
          int64_t seen = causal ? kKeys - (kQueries - 1 - s) : kKeys;
          double sum = 0;
          double weighted[3] = {0, 0, 0};
          for (int64_t t = 0; t < seen; ++t) {
            double score = 0;
            for (int64_t d = 0; d < 3; ++d) score += 0.6 * at(q, {b, s, a, d}) * at(k, {b, t, g, d});
            sum += std::exp(score);
            for (int64_t d = 0; d < 3; ++d) weighted[d] += std::exp(score) * at(v, {b, t, g, d});
          }
          for (int64_t d = 0; d < 3; ++d) CHECK(at(results[0], {b, s, a, d}) == doctest::Approx(weighted[d] / sum));
          CHECK(at(results[1], {b, s, a}) == doctest::Approx(std::log(sum)));
        }
      }
    }
  }
}

TEST_CASE("rope turns pairs by position times frequency") {
  GlobalTensor x = normal({1, 4, 1, 6}, "x");
  for (bool interleaved : {false, true}) {
    Attributes attributes{
        {"theta", 100.0}, {"rotary_dim", int64_t{4}}, {"interleaved", interleaved}, {"inverse", false}};
    GlobalTensor y = run(kRopeOp, attributes, {x})[0];
    // The second pair's frequency is 100^(-2/4) = 0.1.
    int64_t u = 1 + (interleaved ? 1 : 0);
    int64_t w = 3;
    double angle = 3 * 0.1;
    CHECK(at(y, {0, 3, 0, u}) ==
          doctest::Approx(at(x, {0, 3, 0, u}) * std::cos(angle) - at(x, {0, 3, 0, w}) * std::sin(angle)));
    CHECK(at(y, {0, 3, 0, w}) ==
          doctest::Approx(at(x, {0, 3, 0, w}) * std::cos(angle) + at(x, {0, 3, 0, u}) * std::sin(angle)));
    CHECK_EQ(at(y, {0, 3, 0, 5}), at(x, {0, 3, 0, 5}));
    CHECK_EQ(at(y, {0, 0, 0, 1}), at(x, {0, 0, 0, 1}));
    attributes.set("inverse", true);
    CHECK_LT(relative_difference(run(kRopeOp, attributes, {y})[0], x), 1e-12);
  }
}

TEST_CASE("norms give rows of mean 0 and mean square 1") {
  Attributes attributes{{"eps", 0.0}};
  GlobalTensor x = normal({3, 7}, "x");
  GlobalTensor gain = constant_tensor({DType::kF32, {7}}, 1);
  GlobalTensor bias = constant_tensor({DType::kF32, {7}}, 0);
  GlobalTensor layer = run(kLayerNormOp, attributes, {x, gain, bias})[0];
  GlobalTensor rms = run(kRmsNormOp, attributes, {x, gain})[0];
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    double layer_square = 0;
    double rms_square = 0;
    for (int64_t i = 0; i < 7; ++i) {
      sum += at(layer, {row, i});
      layer_square += at(layer, {row, i}) * at(layer, {row, i});
      rms_square += at(rms, {row, i}) * at(rms, {row, i});
      CHECK(at(rms, {row, i}) / at(rms, {row, 0}) == doctest::Approx(at(x, {row, i}) / at(x, {row, 0})));
    }
    CHECK(std::abs(sum) < 1e-12);
    CHECK(layer_square / 7 == doctest::Approx(1));
    CHECK(rms_square / 7 == doctest::Approx(1));
  }
}

TEST_CASE("embedding answers 0 for ids that are no rows, and its gradient adds repeated rows") {
  GlobalTensor ids = constant_tensor({DType::kI32, {4}}, 0);
  ids.data = {2, -1, 2, 3};
  GlobalTensor table = normal({3, 2}, "table");
  GlobalTensor y = run(kEmbeddingOp, {}, {ids, table})[0];
  const std::vector<double>& t = table.data;
  CHECK_EQ(y.data, std::vector<double>{t[4], t[5], 0, 0, t[4], t[5], 0, 0});
  GlobalTensor dy = constant_tensor({DType::kF32, {4, 2}}, 0);
  dy.data = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_EQ(run(kEmbeddingGradOp, {{"rows", int64_t{3}}}, {ids, dy})[0].data, std::vector<double>{0, 0, 0, 0, 6, 8});
}

}  // namespace tpc::testing
