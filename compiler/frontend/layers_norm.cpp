// Layers that normalise over the last dimension.
#include <fmt/format.h>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

constexpr double kDefaultEps = 1e-5;

double read_eps(LayerBuilder& layer) {
  double eps = layer.json().number_or("eps", kDefaultEps);
  if (eps <= 0) layer.required("eps").fail_type("a number above 0");
  return eps;
}

Tensor norm_input(LayerBuilder& layer) {
  Tensor x = layer.input();
  if (x.dims.size() < 2) {
    layer.input_node(0).fail(fmt::format("{} needs at least 2 dimensions, and {}", layer.quoted_name(),
                                         shape_clause(layer.input_node(0), x)));
  }
  return x;
}

Tensor expand_layer_norm(LayerBuilder& layer) {
  Tensor x = norm_input(layer);
  double eps = read_eps(layer);
  Tensor gain = layer.parameter("weight", {x.dims.back()}, "init", "ones");
  Tensor bias = layer.parameter("bias", {x.dims.back()}, "bias_init", "zeros");
  std::vector<std::string> rows = names_of({x.dims.begin(), x.dims.end() - 1});
  return layer.emit(OpKind::kLayerNorm, {x, gain, bias}, {{"eps", eps}},
                    {{"", names_of(x.dims)}, {"mean", rows}, {"rstd", rows}})[0];
}

Tensor expand_rms_norm(LayerBuilder& layer) {
  Tensor x = norm_input(layer);
  double eps = read_eps(layer);
  Tensor gain = layer.parameter("weight", {x.dims.back()}, "init", "ones");
  std::vector<std::string> rows = names_of({x.dims.begin(), x.dims.end() - 1});
  return layer.emit(OpKind::kRmsNorm, {x, gain}, {{"eps", eps}}, {{"", names_of(x.dims)}, {"rstd", rows}})[0];
}

Tensor expand_softmax(LayerBuilder& layer) {
  Tensor x = layer.input();
  return layer.emit_one(OpKind::kSoftmax, {x}, {}, {"", names_of(x.dims)});
}

}  // namespace

std::vector<LayerDef> norm_layers() {
  return {
      {"layer_norm",
       "`y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`, over the last dimension.",
       {{"input", "NAME", "x, float32"},
        {"eps", "number", "default 1e-5"},
        {"init", "INIT", "start of the gain `weight`; default `\"ones\"`"},
        {"bias_init", "INIT", "start of `bias`; default `\"zeros\"`"},
        {"trainable", "true or false", "false freezes gain and bias; default true"}},
       expand_layer_norm,
       WeightRole::kWeight},
      {"rms_norm",
       "`y = x / sqrt(mean(x * x) + eps) * weight`, over the last dimension.",
       {{"input", "NAME", "x, float32"},
        {"eps", "number", "default 1e-5"},
        {"init", "INIT", "start of the gain `weight`; default `\"ones\"`"},
        {"trainable", "true or false", "false freezes the gain; default true"}},
       expand_rms_norm,
       WeightRole::kWeight},
      {"softmax",
       "`y = exp(x) / sum(exp(x))`, over the last dimension.",
       {{"input", "NAME", "x, float32"}},
       expand_softmax},
  };
}

}  // namespace tpc
