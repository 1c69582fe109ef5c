// Layers that work element by element.
#include <fmt/format.h>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

Tensor emit_unary(LayerBuilder& layer, const Tensor& x, std::string function, std::string suffix) {
  return layer.emit_one(OpKind::kUnary, {x}, {{"function", std::move(function)}},
                        {std::move(suffix), names_of(x.dims)});
}

Tensor expand_gelu(LayerBuilder& layer) {
  Tensor x = layer.input();
  auto approximate = layer.json().find("approximate");
  bool is_tanh = approximate && approximate->as_word({"tanh", "none"}) == "tanh";
  return emit_unary(layer, x, is_tanh ? "gelu_tanh" : "gelu", "");
}

Tensor expand_gelu_tanh(LayerBuilder& layer) { return emit_unary(layer, layer.input(), "gelu_tanh", ""); }
Tensor expand_silu(LayerBuilder& layer) { return emit_unary(layer, layer.input(), "silu", ""); }
Tensor expand_relu(LayerBuilder& layer) { return emit_unary(layer, layer.input(), "relu", ""); }
Tensor expand_tanh(LayerBuilder& layer) { return emit_unary(layer, layer.input(), "tanh", ""); }
Tensor expand_sigmoid(LayerBuilder& layer) { return emit_unary(layer, layer.input(), "sigmoid", ""); }

Tensor take_half(LayerBuilder& layer, const Tensor& fused, int64_t index, const char* suffix) {
  Dims dims = fused.dims;
  dims.erase(dims.end() - 2);
  return layer.emit_one(
      OpKind::kSlice, {fused},
      {{"dim", static_cast<int64_t>(fused.dims.size()) - 2}, {"start", index}, {"length", int64_t{1}}, {"drop", true}},
      {suffix, names_of(dims)});
}

Tensor expand_gated(LayerBuilder& layer) {
  if (layer.has("input") == layer.has("inputs")) {
    layer.json().fail(fmt::format("{} needs either \"input\" (fused) or \"inputs\" (gate, up)", layer.quoted_name()));
  }
  std::string function = "silu";
  if (auto node = layer.json().find("activation")) function = node->as_word({"silu", "gelu", "gelu_tanh", "relu"});
  Tensor gate;
  Tensor up;
  if (layer.has("input")) {
    Tensor fused = layer.input();
    if (fused.dims.size() < 3 || fused.dims[fused.dims.size() - 2].size != 2) {
      layer.input_node(0).fail(
          fmt::format("{} needs [.., 2, ffn], and {}", layer.quoted_name(), shape_clause(layer.input_node(0), fused)));
    }
    gate = take_half(layer, fused, 0, "gate");
    up = take_half(layer, fused, 1, "up");
  } else {
    std::vector<Tensor> both = layer.inputs(2, 2);
    gate = both[0];
    up = both[1];
    if (shape_of(gate.dims) != shape_of(up.dims)) {
      layer.input_node(1).fail(fmt::format("{} needs two inputs of one shape: {}, and {}", layer.quoted_name(),
                                           shape_clause(layer.input_node(0), gate),
                                           shape_clause(layer.input_node(1), up)));
    }
  }
  Tensor activation = emit_unary(layer, gate, std::move(function), "activation");
  return layer.emit_one(OpKind::kMultiply, {activation, up}, {}, {"", names_of(up.dims)});
}

// Inputs of add and multiply: the others' dimensions are the first one's last.
std::vector<Tensor> broadcast_inputs(LayerBuilder& layer, size_t most) {
  std::vector<Tensor> operands = layer.inputs(2, most);
  Shape first = shape_of(operands[0].dims);
  for (size_t i = 1; i < operands.size(); ++i) {
    Shape other = shape_of(operands[i].dims);
    if (other.size() <= first.size() && std::equal(other.rbegin(), other.rend(), first.rbegin())) continue;
    layer.input_node(i).fail(fmt::format("{}: {}, and {}; wanted the same, or the last dimensions of it",
                                         layer.quoted_name(), shape_clause(layer.input_node(0), operands[0]),
                                         shape_clause(layer.input_node(i), operands[i])));
  }
  return operands;
}

Tensor expand_add(LayerBuilder& layer) {
  std::vector<Tensor> operands = broadcast_inputs(layer, SIZE_MAX);
  return layer.emit_one(OpKind::kAdd, operands, {}, {"", names_of(operands[0].dims)});
}

Tensor expand_multiply(LayerBuilder& layer) {
  std::vector<Tensor> operands = broadcast_inputs(layer, 2);
  return layer.emit_one(OpKind::kMultiply, operands, {}, {"", names_of(operands[0].dims)});
}

Tensor expand_scale(LayerBuilder& layer) {
  Tensor x = layer.input();
  double factor = layer.number(layer.required("factor"));
  return layer.emit_one(OpKind::kScale, {x}, {{"factor", factor}}, {"", names_of(x.dims)});
}

Tensor expand_dropout(LayerBuilder& layer) {
  Tensor x = layer.input();
  JsonNode node = layer.required("rate");
  double rate = node.as_number();
  if (rate < 0 || rate >= 1) node.fail_type("a number from 0 to below 1");
  return layer.emit_one(OpKind::kDropout, {x}, {{"rate", rate}, {"stream", layer.name()}}, {"", names_of(x.dims)});
}

const LayerKey kInputKey = {"input", "NAME", "x, float32"};

}  // namespace

std::vector<LayerDef> elementwise_layers() {
  return {
      {"gelu",
       "`y = x * Phi(x)`, Phi the normal distribution function; exact, by erf.",
       {kInputKey, {"approximate", "\"tanh\" or \"none\"", "\"tanh\": the older form by tanh; default \"none\""}},
       expand_gelu},
      {"gelu_tanh", "`y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.", {kInputKey}, expand_gelu_tanh},
      {"silu", "`y = x / (1 + exp(-x))`.", {kInputKey}, expand_silu},
      {"relu", "`y = max(x, 0)`.", {kInputKey}, expand_relu},
      {"tanh", "`y = tanh(x)`.", {kInputKey}, expand_tanh},
      {"sigmoid", "`y = 1 / (1 + exp(-x))`.", {kInputKey}, expand_sigmoid},
      {"gated",
       "Gated product: `y = activation(gate) * up`.",
       {{"inputs", "[gate, up]", "two of one shape, float32"},
        {"input", "NAME", "instead of `inputs`: both in one, `[.., 2, ffn]`, gate first"},
        {"activation", "WORD", "\"silu\", \"gelu\", \"gelu_tanh\" or \"relu\"; default \"silu\""}},
       expand_gated},
      {"add",
       "`y = x0 + x1 + ...`.",
       {{"inputs", "NAMES", "at least two, float32; each the shape of the first or its last dimensions"}},
       expand_add},
      {"multiply",
       "`y = x0 * x1`.",
       {{"inputs", "NAMES", "two, float32; the second the shape of the first or its last dimensions"}},
       expand_multiply},
      {"scale",
       "`y = factor * x`.",
       {kInputKey, {"factor", "number or \"1/sqrt(SIZE)\"", "what x is multiplied with"}},
       expand_scale},
      {"dropout",
       "`y = x / (1 - rate)`, or 0 with probability `rate`. The mask depends on seed, step, the layer's name and the "
       "element's place only, so it is the same on any mesh.",
       {kInputKey, {"rate", "number", "share of elements that are dropped, from 0 to below 1"}},
       expand_dropout},
  };
}

}  // namespace tpc
