// Losses: one number out of a batch.
#include <fmt/format.h>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

Tensor expand_cross_entropy(LayerBuilder& layer) {
  Tensor logits = layer.input();
  JsonNode targets_node = layer.required("targets");
  Tensor targets = layer.tensor(targets_node, DType::kI32);
  Dims tokens(logits.dims.begin(), logits.dims.end() - 1);
  if (tokens.empty() || shape_of(targets.dims) != shape_of(tokens)) {
    targets_node.fail(fmt::format(
        "\"targets\" of {} must have the dimensions of its input without the last: {}, and {}", layer.quoted_name(),
        shape_clause(layer.input_node(0), logits), shape_clause(targets_node, targets)));
  }
  int64_t ignore_index = -100;
  if (auto node = layer.json().find("ignore_index")) ignore_index = node->as_int(INT32_MIN, INT32_MAX);

  // The maximum, the sum of exponentials and the target's logit are numbers a token: logits are never gathered.
  std::vector<std::string> token_names = names_of(tokens);
  std::vector<std::string> stats_names = token_names;
  stats_names.insert(stats_names.begin(), "");
  Tensor maximum = layer.emit_one(OpKind::kRowMax, {logits}, {}, {"max", token_names});
  Tensor stats = layer.emit_one(OpKind::kSoftmaxStats, {logits, targets, maximum}, {}, {"stats", stats_names});
  std::vector<Tensor> sums =
      layer.emit(OpKind::kTokenLoss, {stats, targets}, {{"ignore_index", ignore_index}}, {{"sum", {}}, {"count", {}}});
  return layer.emit_one(OpKind::kDivide, sums, {}, {"", {}});
}

Tensor expand_mean_squared_error(LayerBuilder& layer) {
  Tensor x = layer.input();
  JsonNode targets_node = layer.required("targets");
  Tensor targets = layer.tensor(targets_node, DType::kF32);
  if (shape_of(targets.dims) != shape_of(x.dims)) {
    targets_node.fail(fmt::format("\"targets\" of {} must have its input's shape: {}, and {}", layer.quoted_name(),
                                  shape_clause(layer.input_node(0), x), shape_clause(targets_node, targets)));
  }
  Tensor difference = layer.emit_one(OpKind::kSubtract, {x, targets}, {}, {"difference", names_of(x.dims)});
  Tensor sum = layer.emit_one(OpKind::kSumSquares, {difference}, {}, {"sum", {}});
  double factor = 1.0 / static_cast<double>(num_elements(shape_of(x.dims)));
  return layer.emit_one(OpKind::kScale, {sum}, {{"factor", factor}}, {"", {}});
}

}  // namespace

std::vector<LayerDef> loss_layers() {
  return {
      {"cross_entropy",
       "Mean over the valid tokens of `log(sum over v of exp(x[.., v])) - x[.., target]`. Valid are those whose target "
       "is not `ignore_index`; without any, the loss is 0.",
       {{"input", "NAME", "logits, float32, the classes last"},
        {"targets", "NAME", "int32, the dimensions of the input without the last"},
        {"ignore_index", "number", "target of tokens that do not count; default -100"}},
       expand_cross_entropy},
      {"mean_squared_error",
       "`sum((x - targets)^2) / number of elements`.",
       {{"input", "NAME", "x, float32"}, {"targets", "NAME", "an input or layer of the same shape, float32"}},
       expand_mean_squared_error},
  };
}

}  // namespace tpc
