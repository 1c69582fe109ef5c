#include "compiler/frontend/layer_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/frontend/layer_table.h"

namespace tpc {
namespace {

constexpr std::string_view kIndexMark = "{i}";
constexpr std::string_view kNameRule = "letters, digits, \"_\" and \"-\", a letter first";

// "block{i}" -> "block3".
std::string with_index(const std::string& template_name, std::string_view index) {
  std::string name = template_name;
  return name.replace(name.find(kIndexMark), kIndexMark.size(), index);
}

std::vector<std::string> allowed_keys(const LayerDef& def) {
  std::vector<std::string> keys;
  for (const LayerKey& key : shared_layer_keys()) keys.emplace_back(key.name);
  for (const LayerKey& key : def.keys) keys.emplace_back(key.name);
  return keys;
}

const LayerDef& read_op(const JsonNode& layer, const std::string& owner) {
  JsonNode node = layer.required("op", owner);
  const LayerDef* def = find_layer(node.as_string());
  if (def != nullptr) return *def;
  std::vector<std::string> known;
  for (const LayerDef& each : all_layers()) known.emplace_back(each.name);
  std::string way_out = suggestion(node.as_string(), known);
  if (way_out.empty()) way_out = "; there is " + quoted_list(known, " and ");
  node.fail(fmt::format("no layer is called \"{}\"{}", node.as_string(), way_out));
}

}  // namespace

size_t LayerListReader::num_errors() const {
  const auto& all = model_.sink.diagnostics();
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const Diagnostic& d) { return d.severity == Severity::kError; }));
}

bool LayerListReader::is_full() const { return num_layers_ > kMostLayers || num_errors() >= kMostErrors; }

template <class Read>
bool LayerListReader::collect(const Read& read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) model_.sink.add(diagnostic);
  } catch (const DependsOnMistake&) {
  }
  return false;
}

void LayerListReader::declare(const JsonNode& place, const std::string& full_name, NameEntry entry) {
  const NameEntry* earlier = model_.names.declare(full_name, std::move(entry));
  if (earlier == nullptr) return;
  std::vector<Note> notes;
  if (earlier->pointer != place.pointer()) {
    notes.push_back({{model_.graph.source_file, earlier->pointer}, "the first one is here"});
  }
  JsonNode name = place.required("name", "a layer");
  name.fail(fmt::format("two things are called \"{}\"", full_name), std::move(notes));
}

bool LayerListReader::read(const JsonNode& layers) {
  if (layers.elements().empty()) layers.fail_type("at least one layer");
  read_list(layers);
  if (num_layers_ > kMostLayers) {
    model_.sink.error(layers.loc(), fmt::format("\"layers\" makes more than {} layers", kMostLayers));
  }
  return !is_full();
}

void LayerListReader::read_list(const JsonNode& layers) {
  scope_.lists.push_back(layers);
  for (const JsonNode& element : layers.elements()) {
    if (is_full()) break;
    bool is_block = element.has("repeat") || (element.has("layers") && !element.has("op"));
    collect([&] { is_block ? read_block(element) : read_layer(element); });
  }
  scope_.lists.pop_back();
}

void LayerListReader::read_layer(const JsonNode& layer) {
  ++num_layers_;
  std::string full_name;
  bool has_name = collect([&] {
    layer.expect_object();
    JsonNode name_node = layer.required("name", layer.label());
    const std::string& name = name_node.as_string();
    full_name = scope_.prefix + name;
    if (!is_name(name)) name_node.fail(fmt::format("layer name \"{}\": wanted {}", name, kNameRule));
  });
  // Known as broken, what depends on it is not reported again; without a name, that may be any unknown one.
  if (!has_name) model_.names.mark_broken(scope_.prefix);
  if (has_name && !collect([&] { expand_layer(layer, full_name); }))
    model_.names.set_broken(full_name, layer.pointer());
}

void LayerListReader::expand_layer(const JsonNode& layer, const std::string& full_name) {
  const NameEntry* earlier = model_.names.find("", full_name);
  if (earlier != nullptr && earlier->kind != NameEntry::Kind::kCarry) {
    declare(layer, full_name, {NameEntry::Kind::kBroken, {}, layer.pointer()});
  }
  std::string quoted = fmt::format("\"{}\"", full_name);
  const LayerDef& def = read_op(layer, quoted);
  bool has_unknown = layer.report_unknown_keys(allowed_keys(def), quoted, model_.sink);
  LayerBuilder builder(model_, scope_, layer, full_name);
  try {
    Tensor result = def.expand(builder);
    TPC_CHECK(model_.graph.value(result.id).name == full_name, "layer {} ends in \"{}\"", full_name,
              model_.graph.value(result.id).name);
    builder.annotate(def.weight != WeightRole::kNone, def.weight == WeightRole::kLinear);
    declare(layer, full_name, {NameEntry::Kind::kLayer, result, layer.pointer()});
  } catch (const UserError&) {
    // An unknown key is most often a required one misspelt; one message is enough.
    if (has_unknown) throw DependsOnMistake{};
    throw;
  }
}

void LayerListReader::read_block(const JsonNode& block) {
  static const std::vector<std::string> kKeys = {"repeat", "name", "carry", "from", "layers", "comment"};
  std::string template_name;
  try {
    JsonNode name_node = block.required("name", "a repeated block");
    template_name = name_node.as_string();
    size_t mark = template_name.find(kIndexMark);
    if (mark == std::string::npos || !is_name(with_index(template_name, "0"))) {
      std::string found = std::exchange(template_name, "");
      name_node.fail(fmt::format(
          "block name \"{}\": wanted \"{{i}}\" once, for the number of the repetition, besides {}", found, kNameRule));
    }
    std::string quoted = fmt::format("block \"{}\"", template_name);
    if (block.report_unknown_keys(kKeys, quoted, model_.sink)) throw DependsOnMistake{};
    JsonNode repeat = block.required("repeat", quoted);
    int64_t count = model_.sizes.resolve(repeat).size;
    if (scope_.lists.size() > kDeepestBlocks) block.fail(fmt::format("blocks nest deeper than {}", kDeepestBlocks));
    if (count > kMostLayers)
      repeat.fail(fmt::format("\"repeat\" is {}; at most {} layers are possible", count, kMostLayers));
    if (block.required("layers", quoted).elements().empty()) {
      block.required("layers", quoted).fail_type("at least one layer");
    }
    if (block.has("carry") != block.has("from")) {
      block.fail(fmt::format("{} has \"{}\" without \"{}\"", quoted, block.has("carry") ? "carry" : "from",
                             block.has("carry") ? "from" : "carry"));
    }
    read_iterations(block, count, template_name);
  } catch (...) {
    model_.names.mark_broken(scope_.prefix + template_name.substr(0, template_name.find(kIndexMark)));
    throw;
  }
}

void LayerListReader::read_iterations(const JsonNode& block, int64_t count, const std::string& template_name) {
  std::optional<Tensor> carried;
  if (auto from = block.find("from")) {
    const std::string& carry = block.required("carry", "").as_string();
    std::vector<JsonNode> layers = block.required("layers", "").elements();
    bool is_made = std::any_of(layers.begin(), layers.end(), [&](const JsonNode& layer) {
      auto name = layer.find("name");
      return name && name->is_string() && name->as_string() == carry;
    });
    if (!is_made) {
      std::vector<std::string> names;
      for (const JsonNode& layer : layers) {
        if (auto name = layer.find("name"); name && name->is_string()) names.push_back(name->as_string());
      }
      std::string way_out = suggestion(carry, names);
      if (way_out.empty()) way_out = "; it has " + quoted_list(names, " and ");
      block.required("carry", "")
          .fail(fmt::format("\"carry\": no layer of block \"{}\" is called \"{}\"{}", template_name, carry, way_out));
    }
    LayerBuilder reader(model_, scope_, block, scope_.prefix + template_name);
    carried = reader.tensor(*from, std::nullopt);
  }
  for (int64_t i = 0; i < count && !is_full(); ++i) {
    size_t errors = num_errors();
    read_iteration(block, template_name, i, carried);
    // Further repetitions would only repeat the mistake.
    if (num_errors() > errors || (block.has("carry") && !carried)) throw DependsOnMistake{};
  }
  model_.names.alias(scope_.prefix + with_index(template_name, std::to_string(count - 1)) + ".",
                     scope_.prefix + with_index(template_name, "{last}") + ".");
}

void LayerListReader::read_iteration(const JsonNode& block, const std::string& template_name, int64_t index,
                                     std::optional<Tensor>& carried) {
  std::string outer_prefix = scope_.prefix;
  scope_.prefix += with_index(template_name, std::to_string(index)) + ".";
  std::string carry = carried ? scope_.prefix + block.required("carry", "").as_string() : "";
  if (carried) model_.names.declare(carry, {NameEntry::Kind::kCarry, *carried, block.pointer()});
  read_list(block.required("layers", ""));
  scope_.prefix = outer_prefix;
  if (!carried) return;
  const NameEntry* made = model_.names.find("", carry);
  TPC_CHECK(made != nullptr, "carry {} disappeared", carry);
  if (made->kind == NameEntry::Kind::kLayer) {
    carried = made->tensor;
  } else {
    carried.reset();
  }
}

}  // namespace tpc
