#include "compiler/frontend/named_sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

namespace tpc {
namespace {

// The flag as the user most likely typed it.
std::string flag_of(const std::string& name, int64_t size) {
  if (name == "batch" || name == "seq") return fmt::format("--{} {}", name, size);
  return fmt::format("--dim {}={}", name, size);
}

}  // namespace

Shape shape_of(const Dims& dims) {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.size);
  return shape;
}

std::string to_string(const Dims& dims) {
  std::string out = "[";
  for (const Dim& dim : dims) {
    if (out.size() > 1) out += ", ";
    out += dim.name.empty() ? std::to_string(dim.size) : fmt::format("{}={}", dim.name, dim.size);
  }
  return out + "]";
}

bool is_name(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') return false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80U) return false;
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') return false;
  }
  return true;
}

void check_element_count(const JsonNode& node, const Shape& shape, const std::string& what) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size > kLargestTensor / elements) {
      node.fail(fmt::format("{} {} has more than {} elements", what, to_string(shape), kLargestTensor));
    }
    elements *= size;
  }
}

void NamedSizes::read(const JsonNode& dims, const std::map<std::string, int64_t>& overrides, DiagnosticSink& sink) {
  std::vector<std::string> names;
  for (const auto& [name, node] : dims.members()) {
    Entry entry;
    names.push_back(name);
    try {
      if (!is_name(name)) {
        throw UserError(dims.key_loc(name),
                        fmt::format("size name \"{}\": wanted letters, digits, \"_\" and \"-\", a letter first", name));
      }
      entry.size = node.as_int(1, kLargestSize);
    } catch (const UserError& error) {
      entry.is_broken = true;
      for (const Diagnostic& diagnostic : error.diagnostics()) sink.add(diagnostic);
    }
    entries_[name] = entry;
  }
  for (const auto& [name, size] : overrides) {
    auto entry = entries_.find(name);
    if (entry == entries_.end()) {
      std::string way_out = suggestion(name, names);
      if (way_out.empty()) way_out = names.empty() ? "; it names none" : "; it has " + quoted_list(names, " and ");
      sink.error(dims.loc(),
                 fmt::format("{}: the model has no size \"{}\" in \"dims\"{}", flag_of(name, size), name, way_out));
    } else if (size < 1 || size > kLargestSize) {
      sink.error(dims.key_loc(name), fmt::format("{}: wanted a whole number from 1 to {}, found {}",
                                                 flag_of(name, size), kLargestSize, size));
      entry->second.is_broken = true;
    } else {
      entry->second.size = size;
    }
  }
}

Dim NamedSizes::resolve_name(const JsonNode& node, const std::string& name) {
  if (is_broken_) throw DependsOnMistake{};
  auto entry = entries_.find(name);
  if (entry == entries_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, unused] : entries_) names.push_back(known);
    std::string way_out = suggestion(name, names);
    if (way_out.empty()) way_out = names.empty() ? "; it names none" : "; it has " + quoted_list(names, " and ");
    node.fail(fmt::format("{}: \"{}\" is not a size of \"dims\"{}", node.label(), name, way_out));
  }
  entry->second.is_used = true;
  if (entry->second.is_broken) throw DependsOnMistake{};
  return {entry->second.size, name};
}

Dim NamedSizes::resolve(const JsonNode& node) {
  if (node.is_string()) return resolve_name(node, node.as_string());
  if (!node.is_integer()) node.fail_type("a size (a name of \"dims\" or a whole number)");
  return {node.as_int(1, kLargestSize), ""};
}

Dims NamedSizes::resolve_list(const JsonNode& node) {
  Dims dims;
  if (!node.is_array()) {
    dims.push_back(resolve(node));
  } else {
    for (const JsonNode& element : node.elements()) dims.push_back(resolve(element));
  }
  if (dims.empty()) node.fail_type("at least one size");
  if (dims.size() > kMostDimensions) {
    node.fail(fmt::format("{}: wanted at most {} sizes, found {}", node.label(), kMostDimensions, dims.size()));
  }
  check_element_count(node, shape_of(dims), node.label());
  return dims;
}

double NamedSizes::resolve_number(const JsonNode& node) {
  constexpr std::string_view kPrefix = "1/sqrt(";
  if (!node.is_string()) return node.as_number();
  const std::string& text = node.as_string();
  if (!text.starts_with(kPrefix) || !text.ends_with(')')) node.fail_type("a number or \"1/sqrt(SIZE)\"");
  std::string name = text.substr(kPrefix.size(), text.size() - kPrefix.size() - 1);
  return 1.0 / std::sqrt(static_cast<double>(resolve_name(node, name).size));
}

void NamedSizes::warn_unused(const JsonNode& dims, DiagnosticSink& sink) const {
  for (const auto& [name, entry] : entries_) {
    if (!entry.is_used) sink.warning(dims.key_loc(name), fmt::format("size \"{}\" is not used", name));
  }
}

}  // namespace tpc
