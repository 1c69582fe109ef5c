#include "tests/support/op_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace tpc::testing {
namespace {

using Ints = std::vector<int64_t>;

SampleOperand f32(Shape shape) { return {std::move(shape)}; }
SampleOperand positive(Shape shape) { return {std::move(shape), SampleOperand::Values::kPositive}; }
SampleOperand i32(Shape shape, int64_t low, int64_t high) {
  return {std::move(shape), SampleOperand::Values::kIntegers, low, high};
}

void add_elementwise(std::vector<OpSample>& samples) {
  samples.push_back({OpKind::kAdd, {f32({4, 5}), f32({4, 5})}, {}});
  samples.push_back({OpKind::kAdd, {f32({2, 3, 5}), f32({5}), f32({3, 5}), f32({})}, {}});
  samples.push_back({OpKind::kAdd, {f32({}), f32({}), f32({})}, {}});
  for (OpKind op : {OpKind::kSubtract, OpKind::kMultiply, OpKind::kDivide}) {
    samples.push_back({op, {f32({4, 5}), positive({4, 5})}, {}});
    samples.push_back({op, {f32({3, 2, 7}), positive({7})}, {}});
    samples.push_back({op, {f32({5}), positive({})}, {}});
    samples.push_back({op, {f32({}), positive({})}, {}});
  }
  for (const char* to : {"f32", "bf16"}) samples.push_back({OpKind::kCast, {f32({4, 5})}, {{"to", std::string(to)}}});
  samples.push_back({OpKind::kScale, {f32({3, 5})}, {{"factor", -0.75}}});
  for (const char* function : {"gelu", "gelu_tanh", "silu", "relu", "exp", "tanh", "sigmoid"}) {
    Attributes attributes{{"function", std::string(function)}};
    samples.push_back({OpKind::kUnary, {f32({5, 4})}, attributes});
    samples.push_back({OpKind::kUnaryGrad, {f32({5, 4}), f32({5, 4})}, attributes});
  }
  samples.push_back({OpKind::kDropout, {f32({3, 5, 4})}, {{"rate", 0.4}, {"stream", std::string("drop")}}});
  samples.push_back({OpKind::kSquareRoot, {positive({4, 3})}, {}});
  samples.push_back({OpKind::kSumSquares, {f32({4, 5})}, {}});
  samples.push_back({OpKind::kSumSquares, {f32({})}, {}});
  samples.push_back({OpKind::kClipCoefficient, {positive({})}, {{"max_norm", 0.3}}});
  samples.push_back({OpKind::kFill, {}, {{"shape", Ints{4, 3}}, {"value", 2.5}}});
}

void add_contractions(std::vector<OpSample>& samples) {
  auto contract = [&](const char* einsum, Shape x, Shape w) {
    samples.push_back({OpKind::kContract, {f32(std::move(x)), f32(std::move(w))}, {{"einsum", std::string(einsum)}}});
  };
  contract("bsh,fh->bsf", {2, 3, 5}, {4, 5});
  contract("bsh,hf->bsf", {3, 4, 5}, {5, 7});
  contract("bsad,had->bsh", {2, 3, 4, 2}, {5, 4, 2});
  contract("bsh,cadh->cbsad", {2, 3, 4}, {3, 5, 2, 4});
  contract("ij,ik->kj", {5, 4}, {5, 3});
  contract("i,j->ij", {4}, {5});
  contract("i,i->", {7}, {7});
  contract("bmk,bkn->nbm", {4, 3, 5}, {4, 5, 2});
}

void add_shapes(std::vector<OpSample>& samples) {
  samples.push_back({OpKind::kReduceSum, {f32({4, 3, 5})}, {{"dims", Ints{0, 2}}}});
  samples.push_back({OpKind::kReduceSum, {f32({4, 5})}, {{"dims", Ints{0, 1}}}});
  samples.push_back({OpKind::kBroadcastTo, {f32({5})}, {{"shape", Ints{4, 5, 3}}, {"dims", Ints{0, 2}}}});
  samples.push_back({OpKind::kBroadcastTo, {f32({})}, {{"shape", Ints{4, 5}}, {"dims", Ints{0, 1}}}});
  samples.push_back({OpKind::kReshape, {f32({4, 6, 5})}, {{"shape", Ints{4, 3, 2, 5}}}});
  samples.push_back({OpKind::kReshape, {f32({4, 3, 2, 5})}, {{"shape", Ints{4, 30}}}});
  samples.push_back({OpKind::kReshape, {f32({4, 6})}, {{"shape", Ints{6, 4}}}});
  samples.push_back({OpKind::kReshape, {f32({1, 4, 3})}, {{"shape", Ints{12, 1}}}});
  samples.push_back({OpKind::kReshape, {f32({1})}, {{"shape", Ints{}}}});
  samples.push_back({OpKind::kTranspose, {f32({4, 3, 5})}, {{"permutation", Ints{2, 0, 1}}}});
  samples.push_back({OpKind::kTranspose, {f32({4, 5})}, {{"permutation", Ints{1, 0}}}});
  auto slice = [&](Shape shape, int64_t dim, int64_t start, int64_t length, bool drop) {
    samples.push_back({OpKind::kSlice,
                       {f32(std::move(shape))},
                       {{"dim", dim}, {"start", start}, {"length", length}, {"drop", drop}}});
  };
  slice({4, 7, 3}, 1, 2, 4, false);
  slice({4, 5}, 0, 3, 1, true);
  slice({5, 3, 4}, 2, 0, 4, false);
  auto pad = [&](Shape shape, int64_t dim, int64_t start, int64_t size, bool insert) {
    samples.push_back(
        {OpKind::kPad, {f32(std::move(shape))}, {{"dim", dim}, {"start", start}, {"size", size}, {"insert", insert}}});
  };
  pad({4, 3, 5}, 1, 2, 7, false);
  pad({4, 5}, 1, 1, 3, true);
  samples.push_back({OpKind::kConcat, {f32({4, 2, 3}), f32({4, 5, 3})}, {{"dim", int64_t{1}}, {"stack", false}}});
  samples.push_back({OpKind::kConcat, {f32({4, 3}), f32({4, 3}), f32({4, 3})}, {{"dim", int64_t{1}}, {"stack", true}}});
}

void add_norms(std::vector<OpSample>& samples) {
  Attributes eps{{"eps", 1e-5}};
  for (Shape shape : {Shape{4, 5}, Shape{3, 4, 6}, Shape{7}}) {
    Shape rows(shape.begin(), shape.end() - 1);
    Shape h{shape.back()};
    samples.push_back({OpKind::kLayerNorm, {f32(shape), f32(h), f32(h)}, eps});
    samples.push_back({OpKind::kLayerNormGrad, {f32(shape), f32(shape), f32(rows), positive(rows), f32(h)}, {}});
    samples.push_back({OpKind::kRmsNorm, {f32(shape), f32(h)}, eps});
    samples.push_back({OpKind::kRmsNormGrad, {f32(shape), f32(shape), positive(rows), f32(h)}, {}});
    samples.push_back({OpKind::kSoftmax, {f32(shape)}, {}});
    samples.push_back({OpKind::kSoftmaxGrad, {f32(shape), positive(shape)}, {}});
  }
}

void add_embedding_and_rope(std::vector<OpSample>& samples) {
  // Ids outside the table answer 0, as -1 does for padding.
  samples.push_back({OpKind::kEmbedding, {i32({4, 5}, -1, 7), f32({7, 3})}, {}});
  samples.push_back({OpKind::kEmbedding, {i32({5}, 0, 4), f32({4, 2, 3})}, {}});
  samples.push_back({OpKind::kEmbedding, {i32({6}, 0, 5), f32({5})}, {}});
  samples.push_back({OpKind::kEmbeddingGrad, {i32({4, 5}, -1, 7), f32({4, 5, 3})}, {{"rows", int64_t{7}}}});
  samples.push_back({OpKind::kEmbeddingGrad, {i32({5}, 0, 4), f32({5, 2, 3})}, {{"rows", int64_t{4}}}});
  for (bool interleaved : {false, true}) {
    for (bool inverse : {false, true}) {
      Attributes attributes{
          {"theta", 100.0}, {"rotary_dim", int64_t{4}}, {"interleaved", interleaved}, {"inverse", inverse}};
      samples.push_back({OpKind::kRope, {f32({2, 5, 3, 6})}, attributes});
      samples.push_back({OpKind::kRope, {f32({3, 4, 4, 4})}, attributes});
    }
  }
}

void add_attention(std::vector<OpSample>& samples) {
  struct Sizes {
    int64_t b, s, t, a, g, d;
    bool causal;
  };
  for (Sizes n : {Sizes{2, 5, 5, 6, 3, 2, true}, Sizes{3, 4, 7, 4, 4, 3, false}, Sizes{4, 3, 5, 8, 2, 2, true},
                  Sizes{1, 7, 7, 8, 4, 1, true}, Sizes{1, 6, 2, 3, 1, 3, false}}) {
    Attributes attributes{{"causal", n.causal}, {"scale", 0.6}};
    SampleOperand q = f32({n.b, n.s, n.a, n.d});
    SampleOperand k = f32({n.b, n.t, n.g, n.d});
    // The gradient is taken at log-sum-exps that no scores gave: it is a function of its operands all the same.
    samples.push_back({OpKind::kAttention, {q, k, k}, attributes});
    samples.push_back({OpKind::kAttentionGrad, {q, q, k, k, q, positive({n.b, n.s, n.a})}, attributes});
  }
}

void add_losses(std::vector<OpSample>& samples) {
  for (Shape tokens : {Shape{4, 3}, Shape{5}}) {
    Shape logits = tokens;
    logits.push_back(7);
    Shape stats = tokens;
    stats.insert(stats.begin(), 2);
    SampleOperand targets = i32(tokens, -1, 7);
    Attributes ignore{{"ignore_index", int64_t{-1}}};
    samples.push_back({OpKind::kRowMax, {f32(logits)}, {}});
    // The maximum cancels in log(sum) - (x - max), so it is treated as a constant.
    samples.push_back({OpKind::kSoftmaxStats, {f32(logits), targets, f32(tokens)}, {}, {2}});
    samples.push_back({OpKind::kSoftmaxStatsGrad, {f32(logits), targets, f32(tokens), f32(stats)}, {}});
    samples.push_back({OpKind::kTokenLoss, {positive(stats), targets}, ignore});
    samples.push_back({OpKind::kTokenLossGrad, {positive(stats), targets, f32({})}, ignore});
  }
}

void add_optimizers(std::vector<OpSample>& samples) {
  for (bool clipped : {false, true}) {
    Attributes adamw{{"lr", 0.01}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
    adamw.set("has_coefficient", clipped);
    std::vector<SampleOperand> operands{f32({4, 5}), f32({4, 5}), f32({4, 5}), positive({4, 5})};
    if (clipped) operands.push_back(positive({}));
    samples.push_back({OpKind::kAdamW, operands, adamw});
    for (double momentum : {0.0, 0.9}) {
      Attributes sgd{{"lr", 0.1}, {"momentum", momentum}, {"weight_decay", 0.1}, {"has_coefficient", clipped}};
      operands = {f32({5, 3}), f32({5, 3})};
      if (momentum != 0) operands.push_back(f32({5, 3}));
      if (clipped) operands.push_back(positive({}));
      samples.push_back({OpKind::kSgd, operands, sgd});
    }
  }
}

void add_local_moves(std::vector<OpSample>& samples) {
  for (OpKind op : {OpKind::kLocalSlice, OpKind::kMask, OpKind::kZeroPad}) {
    samples.push_back({op, {f32({4, 5})}, {{"axes", Ints{0}}}});
  }
}

/// The sample's operands as the op's row has them where a step computes in bf16; nullopt when they are all f32 then.
std::optional<OpSample> in_bf16(OpSample sample) {
  const FloatRoles& floats = op_def(sample.op).floats;
  bool any = false;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    SampleOperand& operand = sample.operands[i];
    if (floats.of_operand(i) == FloatRole::kFull || operand.values == SampleOperand::Values::kIntegers) continue;
    operand.dtype = DType::kBF16;
    any = true;
  }
  if (!any) return std::nullopt;
  return sample;
}

void add_bf16(std::vector<OpSample>& samples) {
  std::set<OpKind> known;
  for (size_t i = 0, count = samples.size(); i < count; ++i) {
    if (!known.insert(samples[i].op).second) continue;
    std::optional<OpSample> sample = in_bf16(samples[i]);
    if (!sample) continue;
    samples.push_back(*sample);
    const std::vector<FloatRole>& results = op_def(sample->op).floats.results;
    if (std::find(results.begin(), results.end(), FloatRole::kSum) == results.end()) continue;
    sample->attributes.set("sums", std::string("f32"));
    samples.push_back(*sample);
  }
}

std::vector<OpSample> make_samples() {
  std::vector<OpSample> samples;
  add_elementwise(samples);
  add_contractions(samples);
  add_shapes(samples);
  add_norms(samples);
  add_embedding_and_rope(samples);
  add_attention(samples);
  add_losses(samples);
  add_optimizers(samples);
  add_local_moves(samples);
  add_bf16(samples);
  return samples;
}

}  // namespace

TypedOp OpSample::typed() const {
  std::vector<TensorType> types;
  for (const SampleOperand& operand : operands) types.push_back(operand.type());
  return typed_op(op_def(op), attributes, std::move(types));
}

std::vector<GlobalTensor> OpSample::values() const {
  std::vector<GlobalTensor> tensors;
  for (size_t i = 0; i < operands.size(); ++i) {
    const SampleOperand& operand = operands[i];
    std::string name = fmt::format("operand {}", i);
    switch (operand.values) {
      case SampleOperand::Values::kNormal:
        tensors.push_back(random_normal_tensor(operand.type(), 1, name));
        break;
      case SampleOperand::Values::kPositive:
        tensors.push_back(random_uniform_tensor(operand.type(), 1, name, 0.5, 1.5));
        break;
      case SampleOperand::Values::kIntegers:
        tensors.push_back(random_integer_tensor(operand.type(), 1, name, operand.low, operand.high));
        break;
    }
  }
  return tensors;
}

std::string OpSample::text() const {
  std::string result = std::string(op_def(op).name) + "(";
  for (size_t i = 0; i < operands.size(); ++i) result += (i == 0 ? "" : ", ") + to_string(operands[i].type());
  result += ")";
  for (const auto& [name, value] : attributes.items()) result += fmt::format(" {}={}", name, to_string(value));
  return result;
}

std::span<const OpSample> op_samples() {
  static const std::vector<OpSample> samples = make_samples();
  return samples;
}

}  // namespace tpc::testing
