// Layers around a weight: linear, embedding, position_embedding.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

// Gives each dimension of a contraction a letter: one of its name where free, so that formulas are readable.
class Letters {
 public:
  std::string pick(const Dims& dims) {
    std::string out;
    for (const Dim& dim : dims) out += pick_one(dim.name);
    return out;
  }

 private:
  char pick_one(const std::string& name) {
    std::string wishes;
    for (char c : name) {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        wishes += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    for (char letter : wishes + "nmpqrstuvwxyzabcdefghijkl") {
      if (taken_.find(letter) != std::string::npos) continue;
      taken_ += letter;
      return letter;
    }
    return '?';  // at most 2 * kMostDimensions letters are asked for
  }

  std::string taken_;
};

Dims concatenated(Dims first, const Dims& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The trailing dimensions of the input that "contract" lists.
Dims contracted_dims(LayerBuilder& layer, const Tensor& x) {
  auto node = layer.json().find("contract");
  if (!node) return {x.dims.back()};
  Dims wanted = layer.sizes(*node);
  bool fits = wanted.size() <= x.dims.size() &&
              shape_of(wanted) ==
                  shape_of(Dims(x.dims.end() - static_cast<std::ptrdiff_t>(std::min(wanted.size(), x.dims.size())),
                                x.dims.end()));
  if (!fits) {
    node->fail(fmt::format("\"contract\" of {} must be the last dimensions of its input: wanted {}, and {}",
                           layer.quoted_name(), to_string(wanted), shape_clause(layer.input_node(0), x)));
  }
  return wanted;
}

Tensor expand_linear(LayerBuilder& layer) {
  Tensor x = layer.input();
  Dims out = layer.sizes(layer.required("out"));
  Dims contract = contracted_dims(layer, x);
  Dims leading(x.dims.begin(), x.dims.end() - static_cast<std::ptrdiff_t>(contract.size()));
  Dims result = concatenated(leading, out);
  Dims weight_dims = concatenated(out, contract);
  if (weight_dims.size() > kMostDimensions) {
    layer.required("out").fail(fmt::format("the weight of {} would have {} dimensions; at most {} are possible",
                                           layer.quoted_name(), weight_dims.size(), kMostDimensions));
  }
  bool has_bias = layer.json().bool_or("bias", false);
  if (!has_bias && layer.has("bias_init")) {
    layer.required("bias_init").fail(fmt::format("{} has no bias; add \"bias\": true", layer.quoted_name()));
  }
  Tensor weight = layer.weight(weight_dims, "normal");

  Letters letters;
  std::string leading_letters = letters.pick(leading);
  std::string contract_letters = letters.pick(contract);
  std::string out_letters = letters.pick(out);
  std::string formula = fmt::format("{}{},{}{}->{}{}", leading_letters, contract_letters, out_letters, contract_letters,
                                    leading_letters, out_letters);
  Tensor product = layer.emit_one(OpKind::kContract, {x, weight}, {{"einsum", formula}},
                                  {has_bias ? "product" : "", names_of(result)});
  layer.annotate_last();
  if (!has_bias) return product;
  Tensor bias = layer.parameter("bias", out, "bias_init", "zeros");
  return layer.emit_one(OpKind::kAdd, {product, bias}, {}, {"", names_of(result)});
}

Tensor expand_embedding(LayerBuilder& layer) {
  Tensor ids = layer.input(DType::kI32);
  Dims out = layer.sizes(layer.required("out"));
  Dims table_dims = concatenated({layer.size(layer.required("rows"))}, out);
  Tensor table = layer.weight(table_dims, "normal");
  return layer.emit_one(OpKind::kEmbedding, {ids, table}, {}, {"", names_of(concatenated(ids.dims, out))});
}

Tensor expand_position_embedding(LayerBuilder& layer) {
  Tensor x = layer.input();
  JsonNode rows_node = layer.required("rows");
  Dim rows = layer.size(rows_node);
  if (x.dims.size() < 3) {
    layer.input_node(0).fail(fmt::format("{} needs an input of [batch, positions, ...], and {}", layer.quoted_name(),
                                         shape_clause(layer.input_node(0), x)));
  }
  Dim positions = x.dims[1];
  if (rows.size < positions.size) {
    rows_node.fail(fmt::format("{} has {} rows, fewer than the {} positions of \"{}\"", layer.quoted_name(), rows.size,
                               positions.size, layer.input_node(0).as_string()));
  }
  Dims rest(x.dims.begin() + 2, x.dims.end());
  Tensor table = layer.parameter("weight", concatenated({rows}, rest), "init", "normal");
  if (rows.size != positions.size) {
    table = layer.emit_one(OpKind::kSlice, {table},
                           {{"dim", int64_t{0}}, {"start", int64_t{0}}, {"length", positions.size}, {"drop", false}},
                           {"rows", names_of(concatenated({positions}, rest))});
  }
  Tensor sum = layer.emit_one(OpKind::kAdd, {x, table}, {}, {"", names_of(x.dims)});
  layer.annotate_last();
  return sum;
}

}  // namespace

std::vector<LayerDef> linear_layers() {
  return {
      {"linear",
       "`y[.., out..] = sum over contract.. of x[.., contract..] * weight[out.., contract..]`, plus `bias[out..]` if "
       "wanted. The weight keeps its natural dimensions: `[3, heads, head_dim, hidden]`, not `[3 * hidden, hidden]`.",
       {{"input", "NAME", "x, float32"},
        {"out", "SIZES", "dimensions that take the place of the contracted ones"},
        {"contract", "SIZES", "the last dimensions of x, to be summed over; default: the last one"},
        {"bias", "true or false", "add a bias; default false"},
        {"weight", "NAME.weight",
         "use the weight of another layer (tied); it must have exactly the sizes `[out.., contract..]`"},
        {"init", "INIT", "start of the weight; default `{\"normal\": 0.02}`"},
        {"bias_init", "INIT", "start of the bias; default `\"zeros\"`"},
        {"trainable", "true or false", "false freezes weight and bias; default true"}},
       expand_linear,
       WeightRole::kLinear},
      {"embedding",
       "`y[ids.., out..] = weight[ids[..], out..]`: a row of the table for each id.",
       {{"input", "NAME", "ids, int32, each from 0 to rows - 1"},
        {"rows", "SIZE", "number of rows of the table"},
        {"out", "SIZES", "dimensions of a row"},
        {"weight", "NAME.weight",
         "use the weight of another layer (tied); it must have exactly the sizes `[rows, out..]`"},
        {"init", "INIT", "start of the table; default `{\"normal\": 0.02}`"},
        {"trainable", "true or false", "false freezes the table; default true"}},
       expand_embedding,
       WeightRole::kLinear},
      {"position_embedding",
       "`y[b, s, ..] = x[b, s, ..] + weight[s, ..]`: learned positions, counted along dimension 1.",
       {{"input", "NAME", "x, float32, at least 3 dimensions"},
        {"rows", "SIZE", "number of positions of the table; not fewer than x has"},
        {"init", "INIT", "start of the table; default `{\"normal\": 0.02}`"},
        {"trainable", "true or false", "false freezes the table; default true"}},
       expand_position_embedding},
  };
}

}  // namespace tpc
