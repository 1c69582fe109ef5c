#include "tests/kernels/float_variants.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "compiler/core/check.h"

namespace tpc::testing {
namespace {

/// The types of the tensors by letter, operands -> results: b for bf16, f for f32, i for what has no float.
struct Variants {
  OpKind op;
  std::vector<std::string_view> mixes;
};

// What is absent holds data only: all its floats may be bf16. Statistics, losses, gradients of parameters and what the
// optimizer keeps are f32; parameters of a layer are either.
const std::vector<Variants>& variants() {
  static const std::vector<Variants> all = {
      {OpKind::kAdamW, {}},
      {OpKind::kAttention, {"bbb->bf"}},
      {OpKind::kAttentionGrad, {"bbbbbf->bbb"}},
      {OpKind::kClipCoefficient, {}},
      {OpKind::kContract, {"bb->b", "bb->f"}},
      {OpKind::kEmbedding, {"ib->b"}},
      {OpKind::kEmbeddingGrad, {"ib->f"}},
      {OpKind::kLayerNorm, {"bff->bff", "bbb->bff"}},
      {OpKind::kLayerNormGrad, {"bbfff->bff", "bbffb->bff"}},
      {OpKind::kReduceSum, {"b->b", "b->f"}},
      {OpKind::kRmsNorm, {"bf->bf", "bb->bf"}},
      {OpKind::kRmsNormGrad, {"bbff->bf", "bbfb->bf"}},
      {OpKind::kRowMax, {"b->b", "b->f"}},
      {OpKind::kSgd, {}},
      {OpKind::kSoftmaxStats, {"bif->f"}},
      {OpKind::kSoftmaxStatsGrad, {"biff->b"}},
      {OpKind::kSquareRoot, {}},
      {OpKind::kSumSquares, {}},
      {OpKind::kTokenLoss, {}},
      {OpKind::kTokenLossGrad, {}},
  };
  return all;
}

void set_bf16(Part& part) {
  if (part.type.dtype != DType::kF32) return;
  part.type.dtype = DType::kBF16;
  for (double& value : part.data) value = rounded_to_bf16(value);
}

RankStep mixed(RankStep step, std::string_view mix) {
  const size_t arrow = mix.find("->");
  TPC_CHECK(arrow == step.operands.size() && mix.size() == arrow + 2 + step.results.size(), "{} for {}", mix,
            op_def(step.op).name);
  for (size_t i = 0; i < step.operands.size(); ++i) {
    if (mix[i] == 'b') set_bf16(step.operands[i]);
  }
  for (size_t i = 0; i < step.results.size(); ++i) {
    if (mix[arrow + 2 + i] == 'b') set_bf16(step.results[i]);
  }
  return step;
}

}  // namespace

double rounded_to_bf16(double value) {
  // To nearest even; the sums below carry into the exponent as they should.
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u));
}

std::vector<RankStep> float_variants(const RankStep& step) {
  std::vector<RankStep> all = {step};
  const auto found = std::ranges::find(variants(), step.op, &Variants::op);
  if (found == variants().end()) {
    all.push_back(step);
    for (Part& part : all.back().operands) set_bf16(part);
    for (Part& part : all.back().results) set_bf16(part);
  } else {
    for (std::string_view mix : found->mixes) all.push_back(mixed(step, mix));
  }
  return all;
}

bool has_bf16(const RankStep& step) {
  const auto is_bf16 = [](const Part& part) { return part.type.dtype == DType::kBF16; };
  return std::ranges::any_of(step.operands, is_bf16) || std::ranges::any_of(step.results, is_bf16);
}

std::string float_text(const RankStep& step) {
  std::string text;
  for (const Part& part : step.operands) text += std::string(to_string(part.type.dtype)) + " ";
  text += "->";
  for (const Part& part : step.results) text += " " + std::string(to_string(part.type.dtype));
  return text;
}

}  // namespace tpc::testing
