// Attention and the rotation of its queries and keys.
#include <fmt/format.h>

#include <cmath>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

// The q, k or v third of a fused input [batch, seq, 3, heads, head_dim].
Tensor take_third(LayerBuilder& layer, const Tensor& fused, int64_t index, const char* suffix) {
  Dims dims = fused.dims;
  dims.erase(dims.begin() + 2);
  return layer.emit_one(OpKind::kSlice, {fused},
                        {{"dim", int64_t{2}}, {"start", index}, {"length", int64_t{1}}, {"drop", true}},
                        {suffix, names_of(dims)});
}

std::vector<Tensor> split_fused(LayerBuilder& layer) {
  Tensor fused = layer.input();
  if (fused.dims.size() != 5 || fused.dims[2].size != 3) {
    layer.input_node(0).fail(fmt::format("{} needs [batch, seq, 3, heads, head_dim], and {}", layer.quoted_name(),
                                         shape_clause(layer.input_node(0), fused)));
  }
  return {take_third(layer, fused, 0, "q"), take_third(layer, fused, 1, "k"), take_third(layer, fused, 2, "v")};
}

void check_separate(LayerBuilder& layer, const std::vector<Tensor>& qkv) {
  for (size_t i = 0; i < 3; ++i) {
    JsonNode place = layer.input_node(i);
    std::string found = shape_clause(place, qkv[i]);
    if (qkv[i].dims.size() != 4) {
      place.fail(fmt::format("{} needs [batch, seq, heads, head_dim], and {}", layer.quoted_name(), found));
    }
    if (qkv[i].dims[0].size != qkv[0].dims[0].size) {
      place.fail(fmt::format("{} needs a batch of {} as in the queries, and {}", layer.quoted_name(),
                             qkv[0].dims[0].size, found));
    }
    if (qkv[i].dims[3].size != qkv[0].dims[3].size) {
      place.fail(fmt::format("{} needs a head size of {} as in the queries, and {}", layer.quoted_name(),
                             qkv[0].dims[3].size, found));
    }
  }
  if (qkv[0].dims[2].size % qkv[1].dims[2].size != 0) {
    layer.input_node(1).fail(fmt::format("{} has {} query heads, which is not a multiple of its {} key heads",
                                         layer.quoted_name(), qkv[0].dims[2].size, qkv[1].dims[2].size));
  }
  if (shape_of(qkv[1].dims) != shape_of(qkv[2].dims)) {
    layer.input_node(2).fail(fmt::format("{} needs values of the keys' shape {}, and {}", layer.quoted_name(),
                                         to_string(qkv[1].dims), shape_clause(layer.input_node(2), qkv[2])));
  }
}

Tensor expand_attention(LayerBuilder& layer) {
  if (layer.has("input") == layer.has("inputs")) {
    layer.json().fail(
        fmt::format("{} needs either \"input\" (fused) or \"inputs\" (queries, keys, values)", layer.quoted_name()));
  }
  std::vector<Tensor> qkv;
  if (layer.has("input")) {
    qkv = split_fused(layer);
  } else {
    qkv = layer.inputs(3, 3);
    check_separate(layer, qkv);
  }
  bool causal = layer.json().bool_or("causal", false);
  if (causal && qkv[0].dims[1].size > qkv[1].dims[1].size) {
    layer.required("causal").fail(
        fmt::format("{} has {} queries and only {} keys; causal attention needs a key for each query",
                    layer.quoted_name(), qkv[0].dims[1].size, qkv[1].dims[1].size));
  }
  auto scale_node = layer.json().find("scale");
  double scale = scale_node ? layer.number(*scale_node) : 1.0 / std::sqrt(static_cast<double>(qkv[0].dims[3].size));

  const Dims& q = qkv[0].dims;
  Tensor result = layer.emit(OpKind::kAttention, qkv, {{"causal", causal}, {"scale", scale}},
                             {{"", names_of(q)}, {"lse", names_of({q.begin(), q.end() - 1})}})[0];
  layer.annotate_last();
  return result;
}

int64_t read_rotary_dim(LayerBuilder& layer, const Dim& head_dim) {
  auto size_node = layer.json().find("rotary_dim");
  auto fraction_node = layer.json().find("rotary_fraction");
  if (size_node && fraction_node) {
    fraction_node->fail(
        fmt::format("{} has both \"rotary_dim\" and \"rotary_fraction\"; wanted one", layer.quoted_name()));
  }
  int64_t rotary_dim = head_dim.size;
  if (size_node) rotary_dim = layer.size(*size_node).size;
  if (fraction_node) {
    double fraction = fraction_node->as_number();
    if (fraction <= 0 || fraction > 1) fraction_node->fail_type("a number above 0 and at most 1");
    rotary_dim = static_cast<int64_t>(static_cast<double>(head_dim.size) * fraction);
  }
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > head_dim.size) {
    const JsonNode& place = size_node ? *size_node : fraction_node ? *fraction_node : layer.json();
    place.fail(fmt::format("{} rotates {} of the {} elements of a head; wanted an even number from 2 to {}",
                           layer.quoted_name(), rotary_dim, head_dim.size, head_dim.size));
  }
  return rotary_dim;
}

Tensor expand_rope(LayerBuilder& layer) {
  Tensor x = layer.input();
  if (x.dims.size() != 4) {
    layer.input_node(0).fail(fmt::format("{} needs [batch, seq, heads, head_dim], and {}", layer.quoted_name(),
                                         shape_clause(layer.input_node(0), x)));
  }
  double theta = layer.json().number_or("theta", 10000.0);
  if (theta <= 0) layer.required("theta").fail_type("a number above 0");
  int64_t rotary_dim = read_rotary_dim(layer, x.dims[3]);
  return layer.emit_one(OpKind::kRope, {x},
                        {{"theta", theta},
                         {"rotary_dim", rotary_dim},
                         {"interleaved", layer.json().bool_or("interleaved", false)},
                         {"inverse", false}},
                        {"", names_of(x.dims)});
}

}  // namespace

std::vector<LayerDef> attention_layers() {
  return {
      {"attention",
       "`y = softmax(scale * q k^T) v` for each head. With fewer key heads than query heads, query head j uses key "
       "head "
       "`j / (heads / kv_heads)` (grouped heads).",
       {{"input", "NAME", "q, k and v in one: `[batch, seq, 3, heads, head_dim]`"},
        {"inputs", "[q, k, v]",
         "instead of `input`: `[batch, seq, heads, head_dim]`, and twice `[batch, keys, kv_heads, head_dim]`; heads is "
         "a multiple of kv_heads"},
        {"causal", "true or false", "a position sees itself and earlier ones only; default false"},
        {"scale", "number or \"1/sqrt(SIZE)\"", "default 1/sqrt(head_dim)"}},
       expand_attention},
      {"rope",
       "Rotary positions: rotates pairs of a head's elements by `position * theta^(-2i / rotary_dim)`.",
       {{"input", "NAME", "`[batch, seq, heads, head_dim]`, float32"},
        {"theta", "number", "default 10000"},
        {"rotary_dim", "SIZE", "how many leading elements of a head are rotated (even); default all"},
        {"rotary_fraction", "number", "instead of `rotary_dim`: their share of the head"},
        {"interleaved", "true or false", "pairs are (2i, 2i + 1) instead of (i, i + rotary_dim / 2); default false"}},
       expand_rope},
  };
}

}  // namespace tpc
