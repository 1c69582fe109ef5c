// Layers that rearrange elements: reshape, transpose, slice, concat.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

Tensor expand_reshape(LayerBuilder& layer) {
  Tensor x = layer.input(std::nullopt);
  JsonNode node = layer.required("shape");
  Dims dims = layer.sizes(node);
  if (num_elements(shape_of(dims)) != num_elements(shape_of(x.dims))) {
    node.fail(fmt::format("\"shape\" of {}, {}, has {} elements, and {}, {} elements", layer.quoted_name(),
                          to_string(dims), num_elements(shape_of(dims)), shape_clause(layer.input_node(0), x),
                          num_elements(shape_of(x.dims))));
  }
  return layer.emit_one(OpKind::kReshape, {x}, {{"shape", shape_of(dims)}}, {"", names_of(dims)});
}

Tensor expand_transpose(LayerBuilder& layer) {
  Tensor x = layer.input(std::nullopt);
  JsonNode node = layer.required("permutation");
  std::vector<int64_t> permutation;
  for (const JsonNode& element : node.elements()) permutation.push_back(layer.dim_index(element, x.dims, "the input"));
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> every(x.dims.size());
  std::iota(every.begin(), every.end(), int64_t{0});
  if (sorted != every) {
    node.fail(fmt::format("\"permutation\" of {} must name each dimension once, and {}", layer.quoted_name(),
                          shape_clause(layer.input_node(0), x)));
  }
  std::vector<std::string> names;
  for (int64_t dim : permutation) names.push_back(x.dims[static_cast<size_t>(dim)].name);
  return layer.emit_one(OpKind::kTranspose, {x}, {{"permutation", permutation}}, {"", names});
}

Tensor expand_slice(LayerBuilder& layer) {
  Tensor x = layer.input(std::nullopt);
  int64_t dim = layer.dim_index(layer.required("dim"), x.dims, "the input");
  const Dim& sliced = x.dims[static_cast<size_t>(dim)];
  int64_t start = layer.required("start").as_int(0, sliced.size - 1);
  JsonNode length_node = layer.required("length");
  int64_t length = layer.size(length_node).size;
  if (length > sliced.size - start) {
    length_node.fail(fmt::format("{} takes elements {} to {} of dimension {}, which has {}", layer.quoted_name(), start,
                                 start + length - 1, dim, sliced.size));
  }
  bool drop = layer.json().bool_or("drop", false);
  if (drop && length != 1) {
    length_node.fail(fmt::format("\"drop\" needs \"length\": 1, found {}", length));
  }
  if (drop && x.dims.size() == 1) {
    layer.required("drop").fail(fmt::format("{} would have no dimensions left", layer.quoted_name()));
  }
  std::vector<std::string> names = names_of(x.dims);
  if (drop) {
    names.erase(names.begin() + dim);
  } else if (length != sliced.size) {
    names[static_cast<size_t>(dim)] = "";
  }
  return layer.emit_one(OpKind::kSlice, {x}, {{"dim", dim}, {"start", start}, {"length", length}, {"drop", drop}},
                        {"", names});
}

Tensor expand_concat(LayerBuilder& layer) {
  std::vector<Tensor> operands = layer.inputs(2, SIZE_MAX, std::nullopt);
  const Dims& first = operands[0].dims;
  bool stack = layer.json().bool_or("stack", false);
  JsonNode node = layer.required("dim");
  // A stacked dimension is new and may also come last.
  int64_t dim =
      stack ? node.as_int(0, static_cast<int64_t>(first.size())) : layer.dim_index(node, first, "the first input");
  for (size_t i = 1; i < operands.size(); ++i) {
    if (operands[i].dtype != operands[0].dtype) {
      layer.input_node(i).fail(fmt::format("{}: \"{}\" has {} values, and \"{}\" has {}; wanted the same",
                                           layer.quoted_name(), layer.input_node(0).as_string(),
                                           file_spelling(operands[0].dtype), layer.input_node(i).as_string(),
                                           file_spelling(operands[i].dtype)));
    }
    bool fits = operands[i].dims.size() == first.size();
    for (size_t d = 0; fits && d < first.size(); ++d) {
      fits = operands[i].dims[d].size == first[d].size || (!stack && static_cast<int64_t>(d) == dim);
    }
    if (fits) continue;
    layer.input_node(i).fail(fmt::format(
        "{}: {}, and {}; wanted the same shape{}", layer.quoted_name(), shape_clause(layer.input_node(0), operands[0]),
        shape_clause(layer.input_node(i), operands[i]), stack ? "" : fmt::format(", but for dimension {}", dim)));
  }
  std::vector<std::string> names = names_of(first);
  if (stack) {
    names.insert(names.begin() + dim, "");
  } else {
    names[static_cast<size_t>(dim)] = "";
  }
  return layer.emit_one(OpKind::kConcat, operands, {{"dim", dim}, {"stack", stack}}, {"", names});
}

const LayerKey kAnyInputKey = {"input", "NAME", "x"};

}  // namespace

std::vector<LayerDef> shape_layers() {
  return {
      {"reshape",
       "The same elements in row-major order under other dimensions.",
       {kAnyInputKey, {"shape", "SIZES", "the new dimensions; as many elements as x"}},
       expand_reshape},
      {"transpose",
       "The same elements with dimensions in another order.",
       {kAnyInputKey, {"permutation", "list", "for each dimension of y, the one of x, by name or index"}},
       expand_transpose},
      {"slice",
       "`length` elements of one dimension, from `start` on.",
       {kAnyInputKey,
        {"dim", "name or index", "which dimension"},
        {"start", "number", "index of the first element"},
        {"length", "SIZE", "how many"},
        {"drop", "true or false", "with a length of 1: the dimension goes away; default false"}},
       expand_slice},
      {"concat",
       "Tensors one after the other along a dimension.",
       {{"inputs", "NAMES", "at least two, of equal shape but for that dimension"},
        {"dim", "name or index", "which dimension"},
        {"stack", "true or false", "the dimension is new, at that index, with one element an input; default false"}},
       expand_concat},
  };
}

}  // namespace tpc
