#include "compiler/verify/op_meaning.h"

#include <algorithm>
#include <numeric>

namespace tpc::verify {
namespace {

/// A step with the number of dimensions of its tensors.
struct View {
  const Plan& plan;
  const PlanStep& step;
  size_t num_operands() const { return step.operands.size(); }
  size_t num_results() const { return step.results.size(); }
  const Shape& operand(size_t i) const { return plan.tensors[static_cast<size_t>(step.operands[i])].type.shape; }
  const Shape& result(size_t i) const { return plan.tensors[static_cast<size_t>(step.results[i])].type.shape; }
};

std::string letters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('A' + i);
  return text;
}

std::vector<size_t> all_of(size_t count) {
  std::vector<size_t> list(count);
  std::iota(list.begin(), list.end(), size_t{0});
  return list;
}

/// Index by index; tensors with fewer dimensions have the last ones.
OpMeaning elementwise(const View& view, std::vector<std::vector<size_t>> linear) {
  OpMeaning meaning;
  std::string all = letters(view.result(0).size());
  for (size_t i = 0; i < view.num_operands(); ++i) {
    size_t count = std::min(all.size(), view.operand(i).size());
    meaning.operands.push_back(all.substr(all.size() - count));
  }
  meaning.results.assign(view.num_results(), all);
  meaning.linear = std::move(linear);
  meaning.over = {0};
  return meaning;
}

/// Weight, gradient, then moments: the new weight and moments replace the old.
OpMeaning optimizer(const View& view) {
  OpMeaning meaning = elementwise(view, {});
  meaning.over = {0};
  for (size_t moment = 2; moment < 1 + view.num_results(); ++moment) meaning.over.push_back(moment);
  return meaning;
}

OpMeaning nonlinear(const View& view) { return elementwise(view, {}); }
/// The bytes of other elements: nothing is written over.
OpMeaning cast(const View& view) {
  OpMeaning meaning = elementwise(view, {});
  meaning.over = {};
  return meaning;
}

OpMeaning linear_in_first(const View& view) { return elementwise(view, {{0}}); }
OpMeaning linear_in_each(const View& view) { return elementwise(view, {{0}, {1}}); }
OpMeaning linear_in_all(const View& view) { return elementwise(view, {all_of(view.num_operands())}); }

/// All dimensions of operand 0 but the last, then 'z' for that.
std::string row_letters(const View& view, size_t operand) { return letters(view.operand(operand).size() - 1); }

OpMeaning softmax(const View& view) {
  OpMeaning meaning = nonlinear(view);
  meaning.whole = meaning.results[0].back();
  return meaning;
}

OpMeaning softmax_grad(const View& view) {
  OpMeaning meaning = linear_in_first(view);
  meaning.whole = meaning.results[0].back();
  return meaning;
}

OpMeaning layer_norm(const View& view) {
  std::string rows = row_letters(view, 0);
  return {{rows + "z", "z", "z"}, {rows + "z", rows, rows}, "z", {}, false, {}, false};
}

OpMeaning layer_norm_grad(const View& view) {
  std::string rows = row_letters(view, 0);
  return {{rows + "z", rows + "z", rows, rows, "z"}, {rows + "z", "z", "z"}, "z", {{0}}, false, {}, false};
}

OpMeaning rms_norm(const View& view) {
  std::string rows = row_letters(view, 0);
  return {{rows + "z", "z"}, {rows + "z", rows}, "z", {}, false, {}, false};
}

OpMeaning rms_norm_grad(const View& view) {
  std::string rows = row_letters(view, 0);
  return {{rows + "z", rows + "z", rows, "z"}, {rows + "z", "z"}, "z", {{0}}, false, {}, false};
}

/// Ids select rows of the table; a rank that holds some rows makes zeros for the other ids.
OpMeaning embedding(const View& view) {
  std::string all = letters(view.result(0).size());
  std::string ids = all.substr(0, view.operand(0).size());
  return {{ids, "v" + all.substr(ids.size())}, {all}, "", {{1}}, false, {}, false, {}, {0}};
}

OpMeaning embedding_grad(const View& view) {
  std::string all = letters(view.operand(1).size());
  std::string ids = all.substr(0, view.operand(0).size());
  return {{ids, all}, {"v" + all.substr(ids.size())}, "", {{1}}, false, {}, false};
}

/// "bsh,fh->bsf".
OpMeaning contract(const View& view) {
  const std::string& text = view.step.attributes.get_string("einsum");
  size_t comma = text.find(',');
  size_t arrow = text.find("->");
  OpMeaning meaning;
  meaning.operands = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)};
  meaning.results = {text.substr(arrow + 2)};
  meaning.linear = {{0}, {1}};
  meaning.sums = {0};
  return meaning;
}

std::string without(const std::string& all, const std::vector<int64_t>& dims) {
  std::string kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) kept += all[i];
  }
  return kept;
}

OpMeaning reduce_sum(const View& view) {
  std::string all = letters(view.operand(0).size());
  return {{all}, {without(all, view.step.attributes.get_ints("dims"))}, "", {{0}}, false, {}, false, {}, {0}};
}

OpMeaning broadcast_to(const View& view) {
  std::string all = letters(view.result(0).size());
  return {{without(all, view.step.attributes.get_ints("dims"))}, {all}, "", {{0}}, false, {}, false};
}

OpMeaning row_max(const View& view) {
  std::string rows = row_letters(view, 0);
  return {{rows + "v"}, {rows}, "", {}, true, {}, false};
}

OpMeaning sum_squares(const View& view) { return {{letters(view.operand(0).size())}, {""}, "", {}, false, {}, false}; }

/// 'z' counts the two statistics.
OpMeaning softmax_stats(const View& view) {
  std::string tokens = row_letters(view, 0);
  return {{tokens + "v", tokens, tokens}, {"z" + tokens}, "z", {}, false, {}, false};
}

OpMeaning softmax_stats_grad(const View& view) {
  std::string tokens = row_letters(view, 0);
  return {{tokens + "v", tokens, tokens, "z" + tokens}, {tokens + "v"}, "z", {{3}}, false, {}, false, {0}};
}

OpMeaning token_loss(const View& view) {
  std::string tokens = letters(view.operand(1).size());
  return {{"z" + tokens, tokens}, {"", ""}, "z", {}, false, {}, false};
}

OpMeaning token_loss_grad(const View& view) {
  std::string tokens = letters(view.operand(1).size());
  return {{"z" + tokens, tokens, ""}, {"z" + tokens}, "z", {{2}}, false, {}, false, {0}};
}

/// Pairs of the last dimension turn together, by the position in the sequence.
OpMeaning rope(const View& view) {
  OpMeaning meaning = linear_in_first(view);
  meaning.whole = meaning.results[0].back();
  return meaning;
}

OpMeaning::Groups head_groups(const View& view, size_t query, size_t key) {
  return {'a', 'g', view.operand(query)[2] / std::max<int64_t>(1, view.operand(key)[2])};
}

/// A query needs every key and value of its head.
OpMeaning attention(const View& view) {
  return {{"bsad", "btgd", "btgd"}, {"bsad", "bsa"}, "td", {}, false, head_groups(view, 0, 1), false};
}

OpMeaning attention_grad(const View& view) {
  return {{"bsad", "bsad", "btgd", "btgd", "bsad", "bsa"},
          {"bsad", "btgd", "btgd"},
          "td",
          {{0}},
          false,
          head_groups(view, 1, 2),
          false,
          {},
          {1, 2}};
}

/// One side lacks dimension "dim" when its rank is one less; a range of it is no range of the other side's.
OpMeaning range_of_dim(const View& view) {
  std::string all = letters(std::max(view.operand(0).size(), view.result(0).size()));
  int64_t dim = view.step.attributes.get_int("dim");
  auto side = [&](const Shape& shape) { return shape.size() == all.size() ? all : without(all, {dim}); };
  std::string whole(1, all[static_cast<size_t>(dim)]);
  // Sizes of the dimension differ; each side's is a letter of its own.
  std::string in = side(view.operand(0));
  std::string out = side(view.result(0));
  std::replace(out.begin(), out.end(), whole[0], 'y');
  return {{in}, {out}, whole + "y", {{0}}, false, {}, false};
}

OpMeaning concat(const View& view) {
  std::string all = letters(view.result(0).size());
  int64_t dim = view.step.attributes.get_int("dim");
  OpMeaning meaning;
  for (size_t i = 0; i < view.num_operands(); ++i) {
    std::string in = all;
    // Each operand's part of the dimension is a letter of its own.
    char own = static_cast<char>('a' + i % 20);
    if (view.operand(i).size() == all.size()) {
      in[static_cast<size_t>(dim)] = own;
    } else {
      in = without(all, {dim});
    }
    meaning.operands.push_back(in);
    meaning.whole += own;
  }
  meaning.results = {all};
  meaning.whole += all[static_cast<size_t>(dim)];
  meaning.linear = {all_of(view.num_operands())};
  return meaning;
}

OpMeaning transpose(const View& view) {
  std::string in = letters(view.operand(0).size());
  std::string out;
  for (int64_t dim : view.step.attributes.get_ints("permutation")) out += in[static_cast<size_t>(dim)];
  return {{in}, {out}, "", {{0}}, false, {}, false};
}

OpMeaning reshape(const View&) {
  OpMeaning meaning;
  meaning.linear = {{0}};
  meaning.is_reshape = true;
  meaning.over = {0};
  return meaning;
}

using MeaningOf = OpMeaning (*)(const View&);

/// nullptr: no formula.
MeaningOf find_meaning(OpKind op) {
  switch (op) {
    case OpKind::kAdamW:
    case OpKind::kSgd:
      return optimizer;
    case OpKind::kUnary:
    case OpKind::kSquareRoot:
    case OpKind::kClipCoefficient:
    case OpKind::kFill:
      return nonlinear;
    case OpKind::kAdd:
    case OpKind::kSubtract:
      return linear_in_all;
    case OpKind::kMultiply:
      return linear_in_each;
    case OpKind::kDivide:
    case OpKind::kScale:
    case OpKind::kDropout:
    case OpKind::kUnaryGrad:
      return linear_in_first;
    case OpKind::kAttention:
      return attention;
    case OpKind::kAttentionGrad:
      return attention_grad;
    case OpKind::kBroadcastTo:
      return broadcast_to;
    case OpKind::kCast:
      return cast;
    case OpKind::kConcat:
      return concat;
    case OpKind::kContract:
      return contract;
    case OpKind::kEmbedding:
      return embedding;
    case OpKind::kEmbeddingGrad:
      return embedding_grad;
    case OpKind::kLayerNorm:
      return layer_norm;
    case OpKind::kLayerNormGrad:
      return layer_norm_grad;
    case OpKind::kPad:
    case OpKind::kSlice:
      return range_of_dim;
    case OpKind::kReduceSum:
      return reduce_sum;
    case OpKind::kReshape:
      return reshape;
    case OpKind::kRmsNorm:
      return rms_norm;
    case OpKind::kRmsNormGrad:
      return rms_norm_grad;
    case OpKind::kRope:
      return rope;
    case OpKind::kRowMax:
      return row_max;
    case OpKind::kSoftmax:
      return softmax;
    case OpKind::kSoftmaxGrad:
      return softmax_grad;
    case OpKind::kSoftmaxStats:
      return softmax_stats;
    case OpKind::kSoftmaxStatsGrad:
      return softmax_stats_grad;
    case OpKind::kSumSquares:
      return sum_squares;
    case OpKind::kTokenLoss:
      return token_loss;
    case OpKind::kTokenLossGrad:
      return token_loss_grad;
    case OpKind::kTranspose:
      return transpose;
    case OpKind::kAllGather:
    case OpKind::kAllReduce:
    case OpKind::kAllToAll:
    case OpKind::kInput:
    case OpKind::kLocalSlice:
    case OpKind::kMask:
    case OpKind::kOutput:
    case OpKind::kParameter:
    case OpKind::kRedistribute:
    case OpKind::kReduceScatter:
    case OpKind::kState:
    case OpKind::kUpdate:
    case OpKind::kZeroPad:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

bool has_meaning(OpKind op) { return find_meaning(op) != nullptr; }

std::optional<OpMeaning> op_meaning(const Plan& plan, const PlanStep& step) {
  MeaningOf meaning = find_meaning(step.op);
  if (meaning == nullptr) return std::nullopt;
  return meaning(View{plan, step});
}

}  // namespace tpc::verify
