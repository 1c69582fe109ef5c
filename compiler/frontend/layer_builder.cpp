#include "compiler/frontend/layer_builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/frontend/annotation_json.h"
#include "compiler/frontend/initializer.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

bool is_value(const NameEntry& entry) {
  return entry.kind == NameEntry::Kind::kInput || entry.kind == NameEntry::Kind::kLayer ||
         entry.kind == NameEntry::Kind::kCarry;
}

}  // namespace

std::string_view file_spelling(DType dtype) { return dtype == DType::kI32 ? "int32" : "float32"; }

std::vector<std::string> names_of(const Dims& dims) {
  std::vector<std::string> names;
  for (const Dim& dim : dims) names.push_back(dim.name);
  return names;
}

std::string shape_clause(const JsonNode& node, const Tensor& tensor) {
  return fmt::format("\"{}\" has shape {}", node.as_string(), to_string(tensor.dims));
}

LayerBuilder::LayerBuilder(ModelContext& model, const LayerScope& scope, const JsonNode& json, std::string full_name)
    : model_(model), scope_(scope), json_(json), name_(std::move(full_name)) {}

Tensor LayerBuilder::tensor(const JsonNode& node, std::optional<DType> dtype) const {
  const std::string& name = node.as_string();
  const NameEntry* entry = model_.names.find(scope_.prefix, name);
  if (entry == nullptr) fail_unknown_name(node, name);
  if (entry->kind == NameEntry::Kind::kBroken) throw DependsOnMistake{};
  if (!is_value(*entry)) node.fail(fmt::format("\"{}\" is a weight; wanted a layer or an input", name));
  if (dtype && entry->tensor.dtype != *dtype) {
    node.fail(fmt::format("{} takes {} values, and \"{}\" has {}", quoted_name(), file_spelling(*dtype), name,
                          file_spelling(entry->tensor.dtype)),
              {{{model_.graph.source_file, entry->pointer}, fmt::format("\"{}\" declared here", name)}});
  }
  return entry->tensor;
}

void LayerBuilder::fail_unknown_name(const JsonNode& node, const std::string& name) const {
  if (model_.names.is_broken(scope_.prefix, name)) throw DependsOnMistake{};
  for (auto list = scope_.lists.rbegin(); list != scope_.lists.rend(); ++list) {
    for (const JsonNode& layer : list->elements()) {
      auto declared = layer.find("name");
      if (!declared || !declared->is_string() || declared->as_string() != name) continue;
      if (layer.has("repeat")) continue;
      if (layer.pointer() == json_.pointer()) node.fail(fmt::format("{} cannot be its own input", quoted_name()));
      node.fail(fmt::format("\"{}\" comes later; a layer uses what stands before it", name),
                {{layer.loc(), fmt::format("\"{}\" declared here", name)}});
    }
  }
  using Kind = NameEntry::Kind;
  std::vector<std::string> known = model_.names.visible(scope_.prefix, {Kind::kInput, Kind::kLayer, Kind::kCarry});
  std::string way_out = suggestion(name, known);
  if (way_out.empty() && !known.empty() && known.size() <= 6) way_out = "; there is " + quoted_list(known, " and ");
  node.fail(fmt::format("no layer or input is called \"{}\"{}", name, way_out));
}

std::vector<Tensor> LayerBuilder::inputs(size_t fewest, size_t most, std::optional<DType> dtype) const {
  JsonNode node = required("inputs");
  std::vector<JsonNode> elements = node.elements();
  if (elements.size() < fewest || elements.size() > most) {
    std::string wanted = fewest == most ? fmt::format("{}", fewest) : fmt::format("at least {}", fewest);
    node.fail(fmt::format("{} takes {} inputs, found {}", quoted_name(), wanted, elements.size()));
  }
  std::vector<Tensor> tensors;
  for (const JsonNode& element : elements) tensors.push_back(tensor(element, dtype));
  return tensors;
}

JsonNode LayerBuilder::input_node(size_t index) const {
  if (auto node = json_.find("inputs")) return node->elements()[index];
  return required("input");
}

int64_t LayerBuilder::dim_index(const JsonNode& node, const Dims& dims, std::string_view what) const {
  std::string word = node.is_string() ? node.as_string() : "";
  if (!node.is_string()) {
    if (!node.is_integer()) node.fail_type("a dimension (its name or index)");
    return node.as_int(0, static_cast<int64_t>(dims.size()) - 1);
  }
  auto found = find_dim(dims, word);
  if (!found.index) node.fail(fmt::format("{}: {}", node.label(), explain_missing_dim(found, dims, word, what)));
  return *found.index;
}

Tensor LayerBuilder::tied_weight(const JsonNode& node, const Dims& dims) const {
  const std::string& name = node.as_string();
  const NameEntry* entry = model_.names.find(scope_.prefix, name);
  using Kind = NameEntry::Kind;
  if (entry != nullptr && entry->kind == Kind::kBroken) throw DependsOnMistake{};
  if (entry == nullptr || entry->kind != Kind::kWeight) {
    if (entry == nullptr && model_.names.is_broken(scope_.prefix, name)) throw DependsOnMistake{};
    // "embed.weight" of an embed with a mistake is not known, and that mistake was reported.
    size_t dot = name.rfind('.');
    const NameEntry* owner = dot == std::string::npos ? nullptr : model_.names.find(scope_.prefix, name.substr(0, dot));
    if (owner != nullptr && owner->kind == Kind::kBroken) throw DependsOnMistake{};

    std::vector<std::string> weights = model_.names.visible(scope_.prefix, {Kind::kWeight});
    bool has_weight = std::find(weights.begin(), weights.end(), name + ".weight") != weights.end();
    std::string way_out = has_weight ? fmt::format("; did you mean \"{}.weight\"?", name) : suggestion(name, weights);
    if (way_out.empty() && !weights.empty() && weights.size() <= 6)
      way_out = "; there is " + quoted_list(weights, " and ");
    node.fail(entry == nullptr ? fmt::format("no weight before this is called \"{}\"{}", name, way_out)
                               : fmt::format("\"{}\" is not a weight{}", name, way_out));
  }
  if (shape_of(entry->tensor.dims) != shape_of(dims)) {
    node.fail(fmt::format("{} needs a weight of shape {}, and \"{}\" has {}", quoted_name(), to_string(dims), name,
                          to_string(entry->tensor.dims)),
              {{{model_.graph.source_file, entry->pointer}, fmt::format("\"{}\" declared here", name)}});
  }
  return {entry->tensor.id, entry->tensor.dtype, dims};
}

Tensor LayerBuilder::weight(const Dims& dims, std::string_view default_init) {
  auto tie = json_.find("weight");
  if (!tie) return parameter("weight", dims, "init", default_init);
  for (std::string_view key : {"init", "trainable"}) {
    auto useless = json_.find(key);
    // A bias of the layer's own keeps "trainable" meaningful.
    if (!useless || (key == "trainable" && json_.bool_or("bias", false))) continue;
    useless->fail(fmt::format("{} has no weight of its own; \"{}\" belongs where {} is declared", quoted_name(), key,
                              tie->found()));
  }
  return tied_weight(*tie, dims);
}

Tensor LayerBuilder::parameter(std::string_view suffix, const Dims& dims, std::string_view init_key,
                               std::string_view default_init) {
  check_element_count(json_, shape_of(dims), fmt::format("\"{}.{}\"", name_, suffix));
  Attributes attributes;
  attributes.set("shape", shape_of(dims));
  attributes.set("dtype", std::string(to_string(DType::kF32)));
  attributes.set("trainable", json_.bool_or("trainable", true));
  auto init = json_.find(init_key);
  if (init) {
    read_initializer(*init, model_.sizes, attributes);
  } else {
    default_initializer(default_init, attributes);
  }
  Tensor tensor = emit_one(OpKind::kParameter, {}, std::move(attributes), {std::string(suffix), names_of(dims)});
  model_.names.declare(fmt::format("{}.{}", name_, suffix), {NameEntry::Kind::kWeight, tensor, json_.pointer()});
  return tensor;
}

void LayerBuilder::check_results(OpKind op, const std::vector<TensorType>& types) const {
  for (const TensorType& type : types) {
    if (type.shape.size() > kMostDimensions) {
      json_.fail(fmt::format("{} would have {} dimensions; at most {} are possible", quoted_name(), type.shape.size(),
                             kMostDimensions));
    }
    for (int64_t size : type.shape) TPC_CHECK(size >= 1, "{} of {} has a size below 1", op_def(op).name, name_);
    check_element_count(json_, type.shape, quoted_name());
  }
}

std::vector<Tensor> LayerBuilder::emit(OpKind op, const std::vector<Tensor>& operands, Attributes attributes,
                                       const std::vector<ResultSpec>& results) {
  Node node;
  node.op = op;
  node.layer = name_;
  node.origin = json_.pointer();
  node.attributes = std::move(attributes);
  for (const Tensor& operand : operands) node.operands.push_back(operand.id);

  std::vector<TensorType> types;
  try {
    types = op_def(op).infer_types({node.attributes, operand_types(model_.graph, node), {}});
  } catch (const OpTypeError& error) {
    json_.fail(fmt::format("{}: {}", quoted_name(), error.what()));
  }
  TPC_CHECK(types.size() == results.size(), "{} has {} results, {} named", op_def(op).name, types.size(),
            results.size());
  check_results(op, types);

  std::vector<Tensor> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultSpec& result = results[i];
    TPC_CHECK(result.dim_names.size() == types[i].shape.size(), "{} of {}: {} dimensions, {} named", op_def(op).name,
              name_, types[i].shape.size(), result.dim_names.size());
    std::string value_name = result.suffix.empty() ? name_ : fmt::format("{}.{}", name_, result.suffix);
    if (model_.values.contains(value_name)) {
      json_.fail(fmt::format("two tensors would be called \"{}\"; give {} another name", value_name, quoted_name()));
    }
    Tensor tensor{add_value(model_.graph, value_name, types[i]), types[i].dtype, {}};
    model_.values.emplace(std::move(value_name), tensor.id);
    for (size_t d = 0; d < types[i].shape.size(); ++d) tensor.dims.push_back({types[i].shape[d], result.dim_names[d]});
    model_.graph.value(tensor.id).dim_names = result.dim_names;
    node.results.push_back(tensor.id);
    tensors.push_back(std::move(tensor));
  }
  if (op != OpKind::kParameter) {
    last_node_ = EmittedNode{model_.graph.nodes.size(), operands, tensors.empty() ? Tensor{} : tensors[0]};
    if (!main_node_) main_node_ = last_node_;
  }
  model_.graph.nodes.push_back(std::move(node));
  return tensors;
}

void LayerBuilder::annotate(bool has_weight, bool has_linear_weight) {
  auto shard = json_.find("shard");
  if (!shard) return;
  TPC_CHECK(main_node_.has_value(), "layer {} made no node", name_);
  AnnotatedLayer layer{quoted_name(), main_node_->operands[0].dims, {}, main_node_->result.dims, has_linear_weight};
  if (has_weight) layer.weight = main_node_->operands[1].dims;
  model_.graph.nodes[main_node_->index].annotation = read_annotation(*shard, layer);
}

}  // namespace tpc
