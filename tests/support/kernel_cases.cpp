#include "tests/support/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/bfloat16.h"

namespace tpc::testing {
namespace {

using Ints = std::vector<int64_t>;

// Values are floats, so that the kernel and the reference see the same ones.
GlobalTensor as_floats(GlobalTensor tensor) {
  for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
  return tensor;
}

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
GlobalTensor normal(Shape shape, uint64_t seed = 1) {
  return as_floats(random_normal_tensor(f32(std::move(shape)), seed, "normal"));
}
GlobalTensor positive(Shape shape) {
  return as_floats(random_uniform_tensor(f32(std::move(shape)), 2, "positive", 0.5, 1.5));
}
GlobalTensor integers(Shape shape, int64_t low, int64_t high) {
  return random_integer_tensor({DType::kI32, std::move(shape)}, 3, "integers", low, high);
}

void add_elementwise(std::vector<KernelCase>& cases) {
  cases.push_back({OpKind::kAdd, {normal({37, 53}), normal({37, 53}, 2)}, {}});
  cases.push_back({OpKind::kAdd, {normal({3, 7, 33}), normal({33}, 2), normal({7, 33}, 3), normal({}, 4)}, {}});
  cases.push_back({OpKind::kAdd, {normal({5, 1000}), normal({5, 1000}, 2), normal({5, 1000}, 3)}, {}});
  cases.push_back({OpKind::kAdd, {normal({}), normal({}, 2)}, {}});
  GlobalTensor with_zeros = positive({41});
  with_zeros.data[0] = with_zeros.data[39] = 0;
  for (OpKind op : {OpKind::kSubtract, OpKind::kMultiply, OpKind::kDivide}) {
    cases.push_back({op, {normal({64, 65}), positive({64, 65})}, {}});
    cases.push_back({op, {normal({6, 41}), with_zeros}, {}});
    cases.push_back({op, {normal({700, 9}), positive({})}, {}});
  }
  for (const char* to : {"f32", "bf16"}) {
    cases.push_back({OpKind::kCast, {normal({37, 53})}, {{"to", std::string(to)}}});
  }
  cases.push_back({OpKind::kScale, {normal({13, 17})}, {{"factor", -0.75}}});
  for (const char* function : {"gelu", "gelu_tanh", "silu", "relu", "exp", "tanh", "sigmoid"}) {
    Attributes attributes{{"function", std::string(function)}};
    cases.push_back({OpKind::kUnary, {normal({19, 29})}, attributes});
    cases.push_back({OpKind::kUnaryGrad, {normal({19, 29}, 2), normal({19, 29})}, attributes});
  }
  for (Shape shape : {Shape{1}, Shape{6, 5, 7}, Shape{4, 3001}, Shape{7, 64}}) {
    cases.push_back({OpKind::kDropout, {normal(shape)}, {{"rate", 0.3}, {"stream", std::string("block0.drop")}}});
  }
  cases.push_back({OpKind::kSquareRoot, {positive({7, 9})}, {}});
  for (Shape shape : {Shape{}, Shape{5, 7}, Shape{300, 201}})
    cases.push_back({OpKind::kSumSquares, {normal(shape)}, {}});
  cases.push_back({OpKind::kClipCoefficient, {positive({})}, {{"max_norm", 0.3}}});
  cases.push_back({OpKind::kClipCoefficient, {positive({})}, {{"max_norm", 3.0}}});
  cases.push_back({OpKind::kFill, {}, {{"shape", Ints{7, 5}}, {"value", 2.5}}});
}

void add_contractions(std::vector<KernelCase>& cases) {
  auto contract = [&](const char* einsum, Shape x, Shape w) {
    cases.push_back(
        {OpKind::kContract, {normal(std::move(x)), normal(std::move(w), 2)}, {{"einsum", std::string(einsum)}}});
  };
  contract("bsh,fh->bsf", {2, 16, 48}, {33, 48});
  contract("bsf,fh->bsh", {3, 5, 17}, {17, 31});
  contract("bsf,bsh->fh", {3, 9, 17}, {3, 9, 31});
  contract("bsf,bsh->hf", {3, 9, 17}, {3, 9, 31});
  contract("bsad,had->bsh", {2, 3, 4, 6}, {5, 4, 6});
  contract("bsh,cadh->cbsad", {2, 7, 12}, {3, 4, 6, 12});
  contract("cbsad,cadh->bsh", {3, 2, 7, 4, 6}, {3, 4, 6, 12});
  contract("cbsad,bsh->cadh", {3, 2, 7, 4, 6}, {2, 7, 12});
  contract("bsad,btad->bast", {2, 7, 3, 8}, {2, 9, 3, 8});
  contract("bast,btad->bsad", {2, 3, 7, 9}, {2, 9, 3, 8});
  contract("ij,ik->kj", {5, 4}, {5, 3});
  contract("i,j->ij", {14}, {9});
  contract("i,i->", {37}, {37});
  contract("ij,j->i", {6, 37}, {37});
  contract("i,i->i", {9}, {9});
  contract("bmk,bkn->nbm", {4, 3, 5}, {4, 5, 2});
  contract("ab,cb->ac", {1, 6}, {7, 6});
  contract("ab,cb->ac", {6, 1}, {7, 1});
}

void add_shapes(std::vector<KernelCase>& cases) {
  for (const Ints& dims : {Ints{0}, Ints{2}, Ints{1}, Ints{0, 2}, Ints{0, 1}, Ints{0, 1, 2}, Ints{}}) {
    cases.push_back({OpKind::kReduceSum, {normal({6, 11, 83})}, {{"dims", dims}}});
  }
  cases.push_back({OpKind::kReduceSum, {normal({3, 100, 65})}, {{"dims", Ints{0, 1}}}});
  cases.push_back({OpKind::kReduceSum, {normal({3, 1, 65})}, {{"dims", Ints{1}}}});
  cases.push_back({OpKind::kBroadcastTo, {normal({5})}, {{"shape", Ints{4, 5, 3}}, {"dims", Ints{0, 2}}}});
  cases.push_back({OpKind::kBroadcastTo, {normal({35})}, {{"shape", Ints{4, 3, 35}}, {"dims", Ints{0, 1}}}});
  cases.push_back({OpKind::kBroadcastTo, {normal({})}, {{"shape", Ints{4, 5}}, {"dims", Ints{0, 1}}}});
  cases.push_back({OpKind::kReshape, {normal({4, 6, 5})}, {{"shape", Ints{4, 3, 2, 5}}}});
  cases.push_back({OpKind::kReshape, {normal({4, 3, 2, 5})}, {{"shape", Ints{4, 30}}}});
  for (const Ints& permutation : {Ints{2, 0, 1}, Ints{1, 0, 2}, Ints{2, 1, 0}, Ints{0, 2, 1}, Ints{0, 1, 2}}) {
    cases.push_back({OpKind::kTranspose, {normal({6, 19, 37})}, {{"permutation", permutation}}});
  }
  cases.push_back({OpKind::kTranspose, {normal({1, 4, 1, 3})}, {{"permutation", Ints{3, 2, 1, 0}}}});
  auto slice = [&](Shape shape, int64_t dim, int64_t start, int64_t length, bool drop) {
    Attributes attributes{{"dim", dim}, {"start", start}, {"length", length}, {"drop", drop}};
    cases.push_back({OpKind::kSlice, {normal(std::move(shape))}, attributes});
  };
  slice({4, 7, 3}, 1, 2, 4, false);
  slice({4, 5}, 0, 3, 1, true);
  slice({5, 3, 40}, 2, 7, 20, false);
  auto pad = [&](Shape shape, int64_t dim, int64_t start, int64_t size, bool insert) {
    Attributes attributes{{"dim", dim}, {"start", start}, {"size", size}, {"insert", insert}};
    cases.push_back({OpKind::kPad, {normal(std::move(shape))}, attributes});
  };
  pad({4, 3, 5}, 1, 2, 7, false);
  pad({4, 5}, 1, 1, 3, true);
  cases.push_back(
      {OpKind::kConcat, {normal({4, 2, 3}), normal({4, 5, 3}, 2)}, {{"dim", int64_t{1}}, {"stack", false}}});
  cases.push_back({OpKind::kConcat, {normal({4, 3}), normal({4, 3}, 2)}, {{"dim", int64_t{1}}, {"stack", true}}});
}

void add_norms(std::vector<KernelCase>& cases) {
  Attributes eps{{"eps", 1e-5}};
  for (Shape shape : {Shape{4, 5}, Shape{3, 50, 128}, Shape{67, 83}, Shape{16}, Shape{6, 1}}) {
    Shape rows(shape.begin(), shape.end() - 1);
    Shape h{shape.back()};
    GlobalTensor x = normal(shape);
    // A mean far from 0 must not spoil the variance.
    for (double& value : x.data) value = static_cast<double>(static_cast<float>(value + 10));
    cases.push_back({OpKind::kLayerNorm, {h[0] == 1 ? normal(shape) : x, positive(h), normal(h)}, eps});
    cases.push_back(
        {OpKind::kLayerNormGrad, {normal(shape, 2), normal(shape), normal(rows, 3), positive(rows), positive(h)}, {}});
    cases.push_back({OpKind::kRmsNorm, {x, positive(h)}, eps});
    cases.push_back({OpKind::kRmsNormGrad, {normal(shape, 2), normal(shape), positive(rows), positive(h)}, {}});
    cases.push_back({OpKind::kSoftmax, {normal(shape)}, {}});
    cases.push_back({OpKind::kSoftmaxGrad, {normal(shape), positive(shape)}, {}});
  }
}

void add_embedding_and_rope(std::vector<KernelCase>& cases) {
  cases.push_back({OpKind::kEmbedding, {integers({4, 15}, -1, 20), normal({20, 33})}, {}});
  cases.push_back({OpKind::kEmbedding, {integers({6}, 0, 5), normal({5})}, {}});
  cases.push_back({OpKind::kEmbeddingGrad, {integers({4, 15}, -1, 20), normal({4, 15, 33})}, {{"rows", int64_t{20}}}});
  cases.push_back({OpKind::kEmbeddingGrad, {integers({6}, 0, 5), normal({6})}, {{"rows", int64_t{5}}}});
  // Most tokens are of a few rows; most rows have none.
  cases.push_back({OpKind::kEmbedding, {integers({2, 300}, 60, 70), normal({150, 130})}, {}});
  cases.push_back(
      {OpKind::kEmbeddingGrad, {integers({2, 300}, 60, 70), normal({2, 300, 130})}, {{"rows", int64_t{150}}}});
  // Angles of hundreds of turns.
  cases.push_back({OpKind::kRope,
                   {normal({1, 3000, 1, 4})},
                   {{"theta", 500000.0}, {"rotary_dim", int64_t{4}}, {"interleaved", false}, {"inverse", false}}});
  for (bool interleaved : {false, true}) {
    for (bool inverse : {false, true}) {
      for (int64_t rotary_dim : {4, 32, 38}) {
        cases.push_back(
            {OpKind::kRope,
             {normal({2, 9, 4, 38})},
             {{"theta", 10000.0}, {"rotary_dim", rotary_dim}, {"interleaved", interleaved}, {"inverse", inverse}}});
      }
    }
  }
}

void add_attention(std::vector<KernelCase>& cases) {
  struct Sizes {
    int64_t b, s, t, a, g, d;
    bool causal;
  };
  for (Sizes n :
       {Sizes{2, 32, 32, 2, 2, 16, false}, Sizes{2, 33, 33, 4, 2, 16, true}, Sizes{2, 5, 70, 2, 2, 3, true},
        Sizes{1, 130, 130, 2, 1, 64, true}, Sizes{1, 33, 129, 6, 3, 20, false}, Sizes{1, 7, 7, 8, 4, 1, true},
        Sizes{1, 6, 2, 3, 1, 40, false}, Sizes{1, 70, 200, 1, 1, 48, true}, Sizes{1, 1, 130, 2, 1, 128, true},
        Sizes{1, 66, 67, 2, 1, 96, true}, Sizes{1, 35, 70, 1, 1, 256, true}, Sizes{1, 3, 65, 1, 1, 130, false}}) {
    Attributes attributes{{"causal", n.causal}, {"scale", 0.3}};
    GlobalTensor q = normal({n.b, n.s, n.a, n.d});
    GlobalTensor k = normal({n.b, n.t, n.g, n.d}, 2);
    GlobalTensor v = normal({n.b, n.t, n.g, n.d}, 3);
    cases.push_back({OpKind::kAttention, {q, k, v}, attributes});
    // Near what these scores give, so that probabilities are of the usual size.
    GlobalTensor lse = positive({n.b, n.s, n.a});
    for (double& value : lse.data) value += 4;
    cases.push_back({OpKind::kAttentionGrad,
                     {normal(q.type.shape, 4), q, k, v, normal(q.type.shape, 5), as_floats(lse)},
                     attributes});
  }
}

void add_losses(std::vector<KernelCase>& cases) {
  for (Shape tokens : {Shape{4, 9}, Shape{5}}) {
    for (int64_t v : {7, 64, 101, 1037}) {
      Shape logits = tokens;
      logits.push_back(v);
      Shape stats = tokens;
      stats.insert(stats.begin(), 2);
      GlobalTensor targets = integers(tokens, -1, v);
      Attributes ignore{{"ignore_index", int64_t{-1}}};
      cases.push_back({OpKind::kRowMax, {normal(logits)}, {}});
      cases.push_back({OpKind::kSoftmaxStats, {normal(logits), targets, positive(tokens)}, {}});
      cases.push_back({OpKind::kSoftmaxStatsGrad, {normal(logits), targets, positive(tokens), normal(stats, 2)}, {}});
      cases.push_back({OpKind::kTokenLoss, {positive(stats), targets}, ignore});
      cases.push_back({OpKind::kTokenLossGrad, {positive(stats), targets, normal({})}, ignore});
    }
  }
}

void add_optimizers(std::vector<KernelCase>& cases) {
  const Shape shape{9, 37};
  for (bool clipped : {false, true}) {
    Attributes adamw{{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
    adamw.set("has_coefficient", clipped);
    std::vector<GlobalTensor> operands{normal(shape), normal(shape, 2), normal(shape, 3), positive(shape)};
    if (clipped) operands.push_back(positive({}));
    cases.push_back({OpKind::kAdamW, operands, adamw});
    for (double momentum : {0.0, 0.9}) {
      Attributes sgd{{"lr", 0.1}, {"momentum", momentum}, {"weight_decay", 0.1}, {"has_coefficient", clipped}};
      operands = {normal(shape), normal(shape, 2)};
      if (momentum != 0) operands.push_back(normal(shape, 3));
      if (clipped) operands.push_back(positive({}));
      cases.push_back({OpKind::kSgd, operands, sgd});
    }
  }
}

void add_local_moves(std::vector<KernelCase>& cases) {
  for (OpKind op : {OpKind::kLocalSlice, OpKind::kMask, OpKind::kZeroPad}) {
    cases.push_back({op, {normal({9, 17})}, {{"axes", Ints{0}}}});
  }
}

GlobalTensor as_bf16(GlobalTensor tensor) {
  tensor.type.dtype = DType::kBF16;
  for (double& value : tensor.data) value = static_cast<double>(BFloat16(static_cast<float>(value)));
  return tensor;
}

/// Every case again with the operands in bf16 that may be, and with sums in f32 where there are some.
void add_bf16(std::vector<KernelCase>& cases) {
  for (size_t i = 0, count = cases.size(); i < count; ++i) {
    const FloatRoles& floats = op_def(cases[i].op).floats;
    KernelCase made = cases[i];
    bool any = false;
    for (size_t operand = 0; operand < made.operands.size(); ++operand) {
      GlobalTensor& tensor = made.operands[operand];
      if (floats.of_operand(operand) == FloatRole::kFull || tensor.type.dtype == DType::kI32) continue;
      tensor = as_bf16(std::move(tensor));
      any = true;
    }
    if (!any) continue;
    cases.push_back(made);
    if (std::ranges::find(floats.results, FloatRole::kSum) == floats.results.end()) continue;
    made.attributes.set("sums", std::string("f32"));
    cases.push_back(std::move(made));
  }
}

}  // namespace

std::vector<TensorType> KernelCase::operand_types() const {
  std::vector<TensorType> types;
  for (const GlobalTensor& operand : operands) types.push_back(operand.type);
  return types;
}

std::string KernelCase::text() const {
  std::string result = std::string(op_def(op).name) + "(";
  for (size_t i = 0; i < operands.size(); ++i) result += (i == 0 ? "" : ", ") + to_string(operands[i].type);
  result += ")";
  for (const auto& [name, value] : attributes.items()) result += fmt::format(" {}={}", name, to_string(value));
  return result;
}

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> cases;
  add_elementwise(cases);
  add_contractions(cases);
  add_shapes(cases);
  add_norms(cases);
  add_embedding_and_rope(cases);
  add_attention(cases);
  add_losses(cases);
  add_optimizers(cases);
  add_local_moves(cases);
  add_bf16(cases);
  return cases;
}

}  // namespace tpc::testing
