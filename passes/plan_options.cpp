#include "passes/plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/core/text_parts.h"
#include "passes/registry.h"

namespace tpc {
namespace {

/// An empty text is an empty list.
std::vector<std::string> items(const std::string& text, char separator) {
  return text.empty() ? std::vector<std::string>{} : split(text, separator);
}

/// Reads options, and says which one is malformed.
class OptionReader {
 public:
  OptionReader(const std::map<std::string, std::string>& options, std::string file)
      : options_(options), file_(std::move(file)) {}

  const std::string* find(const std::string& name) const {
    auto found = options_.find(name);
    return found == options_.end() ? nullptr : &found->second;
  }
  bool flag(const std::string& name) const {
    const std::string* text = find(name);
    if (text != nullptr && *text != "true" && *text != "false") fail(name, "true or false");
    return text != nullptr && *text == "true";
  }
  template <class Number>
  Number number(const std::string& name, const std::string& text) const {
    std::optional<Number> value = parse_number<Number>(text);
    if (!value || !(*value >= 0)) fail(name, "a number that is not negative");
    return *value;
  }
  template <class Number>
  Number number_or(const std::string& name, Number otherwise) const {
    const std::string* text = find(name);
    return text == nullptr ? otherwise : number<Number>(name, *text);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& wanted) const {
    throw UserError(SourceLoc{file_, "/options/" + name},
                    fmt::format("option \"{}\" is malformed; wanted {}", name, wanted));
  }

 private:
  const std::map<std::string, std::string>& options_;
  std::string file_;
};

}  // namespace

std::string mesh_text(const DeviceMesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes())
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::map<std::string, std::string> plan_options(const CompileOptions& options) {
  std::map<std::string, std::string> texts{{"mesh", mesh_text(options.mesh)},
                                           {"strategy", options.strategy},
                                           {"sequence_parallel", options.sequence_parallel ? "true" : "false"}};
  const SearchOptions& search = options.search;
  if (options.zero_stage > 0) texts["zero"] = std::to_string(options.zero_stage);
  if (!search.no_split.empty()) texts["no_split"] = fmt::format("{}", fmt::join(search.no_split, ","));
  if (!search.sub_axes.empty()) texts["sub_axes"] = fmt::format("{}", fmt::join(search.sub_axes, "x"));
  if (search.free_axes) texts["free_axes"] = "true";
  if (search.memory_price > 0) texts["memory_price"] = fmt::format("{}", search.memory_price);
  if (options.memory_limit > 0) texts["memory_limit"] = std::to_string(options.memory_limit);
  if (!options.links.empty()) texts["links"] = links_text(options.links);
  if (options.price.is_time()) texts["objective"] = "time";
  return texts;
}

CompileOptions read_plan_options(const std::map<std::string, std::string>& texts, const std::string& file) {
  OptionReader reader(texts, file);
  CompileOptions options;
  const std::string* mesh = reader.find("mesh");
  std::optional<DeviceMesh> parsed = mesh == nullptr ? std::nullopt : parse_mesh(*mesh);
  if (!parsed) reader.fail("mesh", "a form like \"dp=2,tp=4\"");
  options.mesh = *parsed;
  for (const MeshAxis& axis : parsed->axes()) {
    if (axis.name != "dp" && axis.name != "tp") reader.fail("mesh", "axes dp and tp");
  }
  if (const std::string* strategy = reader.find("strategy")) {
    std::vector<std::string> known = strategy_names();
    if (std::find(known.begin(), known.end(), *strategy) == known.end())
      reader.fail("strategy", fmt::format("{}", fmt::join(known, " or ")));
    options.strategy = *strategy;
  }
  options.sequence_parallel = reader.flag("sequence_parallel");
  options.zero_stage = reader.number_or("zero", 0);
  if (options.zero_stage > 3) reader.fail("zero", "a stage from 0 to 3");
  if (const std::string* names = reader.find("no_split")) options.search.no_split = items(*names, ',');
  if (const std::string* sizes = reader.find("sub_axes")) {
    for (const std::string& size : items(*sizes, 'x')) {
      options.search.sub_axes.push_back(reader.number<int64_t>("sub_axes", size));
      int64_t ranks = options.search.sub_axes.back();
      if (ranks < 2 || ranks > options.mesh.world_size())
        reader.fail("sub_axes", "sizes that multiply to tp, like 2x4");
    }
  }
  options.search.free_axes = reader.flag("free_axes");
  options.search.memory_price = reader.number_or("memory_price", 0.0);
  if (!(options.search.memory_price <= 1e6)) reader.fail("memory_price", "a number up to 1000000");
  options.memory_limit = reader.number_or("memory_limit", int64_t{0});
  if (const std::string* text = reader.find("links")) {
    std::optional<std::vector<AxisLink>> links = parse_links(*text);
    if (!links) reader.fail("links", "axis:bytes a second:seconds of latency, ...");
    options.links = std::move(*links);
  }
  const std::string* objective = reader.find("objective");
  if (objective != nullptr && *objective != "bytes" && *objective != "time") reader.fail("objective", "bytes or time");
  if (objective != nullptr && *objective == "time") {
    for (const MeshAxis& axis : options.mesh.axes()) {
      bool known = std::any_of(options.links.begin(), options.links.end(),
                               [&](const AxisLink& link) { return link.axis == axis.name; });
      if (!known) reader.fail("links", fmt::format("a link of axis \"{}\", since the objective is time", axis.name));
    }
    options.price = MovePrice(options.links);
  }
  return options;
}

}  // namespace tpc
