#include "compiler/frontend/annotation_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tpc {
namespace {

// "R", "S(heads)" or "S(1)" as a placement of a tensor with these dimensions.
Placement read_placement(const JsonNode& node, const Dims& dims, const std::string& what) {
  const std::string& text = node.as_string();
  if (text == "R") return Placement::replicate();
  if (!text.starts_with("S(") || !text.ends_with(')') || text.size() < 4) node.fail_type(R"-("R" or "S(DIMENSION)")-");
  std::string word = text.substr(2, text.size() - 3);
  bool is_index =
      word.size() <= 4 && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_index) {
    int64_t index = std::stoll(word);
    if (index < static_cast<int64_t>(dims.size())) return Placement::shard(index);
    node.fail(
        fmt::format("{}: {} has no dimension {}; its dimensions are {}", node.label(), what, index, to_string(dims)));
  }
  DimSearch search = find_dim(dims, word);
  if (!search.index) node.fail(fmt::format("{}: {}", node.label(), explain_missing_dim(search, dims, word, what)));
  return Placement::shard(*search.index);
}

}  // namespace

DimSearch find_dim(const Dims& dims, const std::string& name) {
  DimSearch search;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].name != name) continue;
    search.is_ambiguous = search.index.has_value();
    search.index = static_cast<int64_t>(i);
    if (search.is_ambiguous) {
      search.index.reset();
      break;
    }
  }
  return search;
}

std::string explain_missing_dim(const DimSearch& search, const Dims& dims, const std::string& name,
                                std::string_view what) {
  if (search.is_ambiguous) {
    return fmt::format("\"{}\" names two dimensions of {}, {}; give an index", name, what, to_string(dims));
  }
  std::vector<std::string> names;
  for (const Dim& dim : dims) {
    if (!dim.name.empty()) names.push_back(dim.name);
  }
  return fmt::format("{} has no dimension \"{}\"; its dimensions are {}{}", what, name, to_string(dims),
                     suggestion(name, names));
}

Annotation read_annotation(const JsonNode& node, const AnnotatedLayer& layer) {
  Annotation annotation;
  annotation.pointer = node.pointer();
  if (node.is_string()) {
    std::vector<std::string> words = {"replicate"};
    if (layer.has_linear_weight) words = {"column", "row", "replicate"};
    const std::string& word = node.as_string();
    if (!layer.has_linear_weight && (word == "column" || word == "row")) {
      node.fail(
          fmt::format("\"{}\" is for linear and embedding layers; {} may be \"replicate\", or "
                      "pin {{\"input\": ..., \"output\": ...}}",
                      word, layer.quoted_name));
    }
    annotation.layer = node.as_word(words);
    return annotation;
  }
  if (!node.is_object())
    node.fail_type(R"("column", "row", "replicate" or an object of "input", "weight" and "output")");
  std::vector<std::string> uses = {"input", "output"};
  if (layer.weight) uses = {"input", "weight", "output"};
  if (node.members().empty()) node.fail_type("a placement for " + quoted_list(uses));
  for (const auto& [key, member] : node.members()) {
    if (std::find(uses.begin(), uses.end(), key) == uses.end()) {
      throw UserError(node.key_loc(key), fmt::format("{}: wanted {}, found \"{}\"{}", node.label(), quoted_list(uses),
                                                     key, suggestion(key, uses)));
    }
  }
  for (const std::string& use : uses) {
    auto member = node.find(use);
    if (!member) continue;
    const Dims& dims = use == "input" ? layer.input : use == "output" ? layer.output : *layer.weight;
    annotation.uses.emplace_back(use,
                                 read_placement(*member, dims, fmt::format("the {} of {}", use, layer.quoted_name)));
  }
  return annotation;
}

}  // namespace tpc
