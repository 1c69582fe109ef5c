// Products in the terms of a column-major library compute what the contractions' reference does.
#include "compiler/lowering/matmul.h"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/lowering/together.h"
#include "compiler/ops/einsum.h"

namespace tpc {
namespace {

LocalTensor tensor(const Shape& shape, std::vector<float>& data) {
  data.assign(static_cast<size_t>(num_elements(shape)), 0.0f);
  return {{DType::kF32, shape}, whole_region(shape), data.data()};
}

Shape shape_of(const std::string& term, const std::map<char, int64_t>& sizes) {
  Shape shape;
  for (char letter : term) shape.push_back(sizes.at(letter));
  return shape;
}

std::vector<float> copied(const ReorderedCopy& copy, const float* from) {
  std::vector<float> to(static_cast<size_t>(copy.loop.num_elements()));
  for_each_index(copy.loop, [&](auto index) { to[static_cast<size_t>(copy.to(index))] = from[copy.from(index)]; });
  return to;
}

/// What the library does; also that nothing lies outside the matrices.
void run(const Matmul& product, const float* a, const float* b, float* d) {
  REQUIRE(product.a.ld >= product.a.rows);
  REQUIRE(product.b.ld >= product.b.rows);
  REQUIRE(product.d.ld >= product.d.rows);
  REQUIRE(product.d.rows == product.m);
  REQUIRE(product.d.columns == product.n);
  REQUIRE((product.a.is_transposed ? product.a.columns : product.a.rows) == product.m);
  REQUIRE((product.b.is_transposed ? product.b.columns : product.b.rows) == product.k);
  for (int64_t batch = 0; batch < product.batch; ++batch) {
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t j = 0; j < product.n; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < product.k; ++l) {
          float x = a[batch * product.a.batch_stride +
                      (product.a.is_transposed ? l + i * product.a.ld : i + l * product.a.ld)];
          float w = b[batch * product.b.batch_stride +
                      (product.b.is_transposed ? j + l * product.b.ld : l + j * product.b.ld)];
          sum += x * w;
        }
        d[batch * product.d.batch_stride + i + j * product.d.ld] = sum;
      }
    }
  }
}

void run_steps(const FusedMatmul& product) {
  const Matmul& matmul = product.matmul;
  const float* a = matmul.swapped ? product.x.f32() : product.w.f32();
  const float* b = matmul.swapped ? product.w.f32() : product.x.f32();
  std::vector<float> a_copy, b_copy, d_copy;
  if (matmul.a.copy) a_copy = copied(*matmul.a.copy, a), a = a_copy.data();
  if (matmul.b.copy) b_copy = copied(*matmul.b.copy, b), b = b_copy.data();
  float* d = product.d.f32();
  if (matmul.d.copy) d_copy.resize(static_cast<size_t>(matmul.d.copy->loop.num_elements())), d = d_copy.data();
  run(matmul, a, b, d);
  if (matmul.d.copy) {
    const ReorderedCopy& copy = *matmul.d.copy;
    for_each_index(copy.loop, [&](auto index) {
      product.d.f32()[copy.to(index)] = d_copy[static_cast<size_t>(copy.from(index))];
    });
  }
}

TEST_CASE("a contraction is one product, whatever the order of its letters") {
  std::mt19937 random(3);
  std::map<char, int64_t> sizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 1}, {'f', 3}};
  const char* kEinsums[] = {"ab,bc->ac",     "ba,bc->ac",     "ab,cb->ac",       "ba,cb->ca",     "abc,cd->abd",
                            "abc,dc->abd",   "abd,abc->cd",   "acb,acd->abd",    "abc,adc->abd",  "abcd,cde->abe",
                            "abe,cde->abcd", "abcd,abe->cde", "acbd,abd->abc",   "e,e->",         "ab,ab->",
                            "a,b->ab",       "abc,abc->ab",   "abcf,abdf->abcd", "cab,dab->abcd", "bad,dcb->abc"};
  for (const char* text : kEinsums) {
    CAPTURE(text);
    Einsum einsum = parse_einsum(text);
    std::vector<float> x, w, y;
    LocalStep step{OpKind::kContract, {{"einsum", std::string(text)}}, {}, {}, "step"};
    step.operands = {tensor(shape_of(einsum.x, sizes), x), tensor(shape_of(einsum.w, sizes), w)};
    step.results = {tensor(shape_of(einsum.y, sizes), y)};
    for (float& value : x) value = static_cast<float>(random() % 11) - 5;
    for (float& value : w) value = static_cast<float>(random() % 11) - 5;
    run_steps(matmul_of(step));

    std::vector<double> dx(x.begin(), x.end()), dw(w.begin(), w.end()), dy(y.size());
    std::vector<ReferenceTensor> operands = {{step.operands[0].type, step.operands[0].region, dx.data()},
                                             {step.operands[1].type, step.operands[1].region, dw.data()}};
    std::vector<ReferenceTensor> results = {{step.results[0].type, step.results[0].region, dy.data()}};
    op_def(OpKind::kContract).reference({step.attributes, operands, results, {}, true});
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(static_cast<double>(y[i]) == dy[i]);
  }
}

TEST_CASE("operands that are swapped, or rows that begin elsewhere, make another product") {
  std::vector<float> x, w, y;
  LocalStep step{OpKind::kContract, {{"einsum", std::string("ab,bc->ac")}}, {}, {}, "step"};
  step.operands = {tensor({5, 5}, x), tensor({5, 5}, w)};
  step.results = {tensor({5, 5}, y)};
  std::mt19937 random(5);
  for (float& value : x) value = static_cast<float>(random() % 11) - 5;
  for (float& value : w) value = static_cast<float>(random() % 11) - 5;
  FusedMatmul product = matmul_of(step);
  run_steps(product);
  std::vector<float> right = y;
  std::swap(product.x, product.w);
  run_steps(product);
  CHECK(y != right);
  std::swap(product.x, product.w);
  product.matmul.b.is_transposed = true;
  run_steps(product);
  CHECK(y != right);
  product = matmul_of(step);
  // A row too many for the tensors: they get room for it.
  x.resize(64), w.resize(64), y.resize(64);
  product.x.data = x.data(), product.w.data = w.data(), product.d.data = y.data();
  product.matmul.a.ld += 1;
  run_steps(product);
  CHECK(std::vector<float>(y.begin(), y.begin() + 25) != right);
}

/// Steps on one arena, as a plan lays them out.
class Steps {
 public:
  /// At `offset` elements in the arena.
  LocalTensor at(size_t offset, const Shape& shape) {
    return {{DType::kF32, shape}, whole_region(shape), arena_.data() + offset};
  }
  void add(OpKind op, Attributes attributes, std::vector<LocalTensor> operands, std::vector<LocalTensor> results) {
    steps.push_back({op, std::move(attributes), std::move(operands), std::move(results), "step"});
  }
  std::vector<LocalStep> steps;

 private:
  alignas(64) std::array<float, 4096> arena_{};
};

constexpr size_t kX = 0, kW = 256, kY = 512, kBias = 1024, kOut = 1152, kOther = 2048;

void add_linear(Steps& s, int64_t width = 16) {
  s.add(OpKind::kContract, {{"einsum", std::string("tk,kn->tn")}}, {s.at(kX, {4, 8}), s.at(kW, {8, width})},
        {s.at(kY, {4, width})});
  s.add(OpKind::kAdd, {}, {s.at(kY, {4, width}), s.at(kBias, {width})}, {s.at(kY, {4, width})});
}

TEST_CASE("a bias and a gelu go out with the product") {
  Steps s;
  add_linear(s);
  s.add(OpKind::kUnary, {{"function", std::string("gelu_tanh")}}, {s.at(kY, {4, 16})}, {s.at(kOut, {4, 16})});
  FusedSteps fused = fuse_contractions(s.steps);
  CHECK(fused.count == 3);
  REQUIRE(fused.matmuls.size() == 1);
  CHECK(fused.matmuls[0].matmul.epilogue == MatmulEpilogue::kBiasGeluAux);
  CHECK(fused.matmuls[0].aux->data == s.at(kY, {}).data);
  CHECK(fused.matmuls[0].d.data == s.at(kOut, {}).data);

  s.steps[2].results[0] = s.at(kY, {4, 16});
  CHECK(fuse_contractions(s.steps).matmuls[0].matmul.epilogue == MatmulEpilogue::kBiasGelu);
  s.steps[2].attributes = {{"function", std::string("silu")}};
  CHECK(fuse_contractions(s.steps).count == 2);
}

TEST_CASE("what a later step may still read is made as it is") {
  Steps s;
  add_linear(s);
  s.steps[1].results[0] = s.at(kOut, {4, 16});
  CHECK(fuse_contractions(s.steps).count == 1);
}

TEST_CASE("rows that the library cannot keep beside the result stay out of the product") {
  Steps s;
  add_linear(s, 12);
  s.add(OpKind::kUnary, {{"function", std::string("gelu_tanh")}}, {s.at(kY, {4, 12})}, {s.at(kOut, {4, 12})});
  FusedSteps fused = fuse_contractions(s.steps);
  CHECK(fused.count == 2);
  CHECK(fused.matmuls[0].matmul.epilogue == MatmulEpilogue::kBias);
}

TEST_CASE("the gradient of gelu goes out with the product before it, and with the bias' gradient") {
  Steps s;
  Attributes gelu = {{"function", std::string("gelu_tanh")}};
  s.add(OpKind::kContract, {{"einsum", std::string("tn,kn->tk")}}, {s.at(kX, {4, 8}), s.at(kW, {16, 8})},
        {s.at(kY, {4, 16})});
  s.add(OpKind::kContract, {{"einsum", std::string("tn,tk->kn")}}, {s.at(kX, {4, 8}), s.at(kOut, {4, 16})},
        {s.at(kOther, {16, 8})});
  s.add(OpKind::kUnaryGrad, gelu, {s.at(kY, {4, 16}), s.at(kBias, {4, 16})}, {s.at(kY, {4, 16})});
  CHECK(fuse_contractions(s.steps).count == 3);
  s.add(OpKind::kReduceSum, {{"dims", std::vector<int64_t>{0}}}, {s.at(kY, {4, 16})}, {s.at(3000, {16})});
  FusedSteps fused = fuse_contractions(s.steps);
  CHECK(fused.count == 4);
  REQUIRE(fused.matmuls.size() == 2);
  CHECK(fused.matmuls[0].matmul.epilogue == MatmulEpilogue::kGeluGradBiasGrad);
  CHECK(fused.matmuls[1].matmul.epilogue == MatmulEpilogue::kNone);
  // The other product may not come after what it reads has changed.
  s.steps[1].operands[0] = s.at(kY, {4, 8});
  CHECK(fuse_contractions(s.steps).count == 1);
}

TEST_CASE("a product writes nothing that it reads, wherever a plan lays results of later steps") {
  // Over x, over the weight, over the bias.
  for (size_t out : {kX, kW, kBias}) {
    Steps s;
    add_linear(s);
    s.add(OpKind::kUnary, {{"function", std::string("gelu_tanh")}}, {s.at(kY, {4, 16})}, {s.at(out, {4, 16})});
    FusedSteps fused = fuse_contractions(s.steps);
    CHECK(fused.count == 2);
    CHECK(fused.matmuls[0].d.data == s.at(kY, {}).data);
  }
}

TEST_CASE("a random layout of the steps of a block gives no product that writes what it reads") {
  std::mt19937 random(1);
  size_t num_fused = 0;
  for (int round = 0; round < 4000; ++round) {
    // Offsets as plans give them: whole tensors of 64 elements, few places for many.
    auto place = [&] { return 64 * (random() % 8); };
    Steps s;
    const size_t d = place(), saved = place();
    const Shape wide = {8, 8};
    Attributes gelu = {{"function", std::string("gelu_tanh")}};
    s.add(OpKind::kContract, {{"einsum", std::string("tk,kn->tn")}}, {s.at(place(), wide), s.at(place(), wide)},
          {s.at(d, wide)});
    if (round % 2 == 0) {
      s.add(OpKind::kAdd, {}, {s.at(d, wide), s.at(place(), {8})}, {s.at(d, wide)});
      s.add(OpKind::kUnary, gelu, {s.at(d, wide)}, {s.at(place(), wide)});
    } else {
      s.add(OpKind::kContract, {{"einsum", std::string("tn,tk->kn")}}, {s.at(place(), wide), s.at(saved, wide)},
            {s.at(place(), wide)});
      s.add(OpKind::kUnaryGrad, gelu, {s.at(d, wide), s.at(saved, wide)}, {s.at(d, wide)});
      s.add(OpKind::kReduceSum, {{"dims", std::vector<int64_t>{0}}}, {s.at(d, wide)}, {s.at(place(), {8})});
    }
    FusedSteps fused = fuse_contractions(s.steps);
    if (fused.count < 2) continue;
    ++num_fused;
    for (const FusedMatmul& product : fused.matmuls) {
      if (product.matmul.epilogue == MatmulEpilogue::kNone) continue;
      const TouchedTensors touched = touched_by(product);
      for (const LocalTensor& written : touched.written) {
        for (const LocalTensor& read : touched.read) CHECK_FALSE(overlap(written, read));
      }
    }
  }
  CHECK(num_fused > 100);
}

TEST_CASE("a sum over the columns of a square result is no bias' gradient") {
  Steps s;
  Attributes gelu = {{"function", std::string("gelu_tanh")}};
  s.add(OpKind::kContract, {{"einsum", std::string("tn,kn->tk")}}, {s.at(kX, {16, 8}), s.at(kW, {16, 8})},
        {s.at(kY, {16, 16})});
  s.add(OpKind::kUnaryGrad, gelu, {s.at(kY, {16, 16}), s.at(kBias, {16, 16})}, {s.at(kY, {16, 16})});
  s.add(OpKind::kReduceSum, {{"dims", std::vector<int64_t>{1}}}, {s.at(kY, {16, 16})}, {s.at(3000, {16})});
  CHECK(fuse_contractions(s.steps).count == 2);
}

TEST_CASE("steps of one op go out together until one reads or writes what another has written") {
  Steps s;
  auto add_sgd = [&](size_t weight, size_t gradient) {
    s.add(OpKind::kSgd, {}, {s.at(weight, {16}), s.at(gradient, {16})}, {s.at(weight, {16})});
  };
  add_sgd(0, 16);
  add_sgd(32, 48);
  add_sgd(64, 80);
  CHECK(num_together(s.steps) == 3);
  add_sgd(96, 32);
  CHECK(num_together(s.steps) == 3);
  s.steps[1] = s.steps[0];
  CHECK(num_together(s.steps) == 1);
  s.steps[1].op = OpKind::kAdamW;
  CHECK(num_together(s.steps) == 1);
}

}  // namespace
}  // namespace tpc
