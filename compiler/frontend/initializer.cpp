#include "compiler/frontend/initializer.h"

#include <fmt/format.h>

namespace tpc {
namespace {

constexpr std::string_view kForms = R"("zeros", "ones", {"normal": STD}, {"uniform": BOUND} or {"constant": VALUE})";

}  // namespace

void read_initializer(const JsonNode& node, NamedSizes& sizes, Attributes& attributes) {
  if (node.is_string()) {
    const std::string& word = node.as_string();
    if (word != "zeros" && word != "ones") {
      node.fail(fmt::format("{}: wanted {}, found {}{}", node.label(), kForms, node.found(),
                            suggestion(word, {"zeros", "ones", "normal", "uniform", "constant"})));
    }
    attributes.set("init", word);
    return;
  }
  if (!node.is_object() || node.members().size() != 1) node.fail_type(kForms);
  const auto [kind, argument] = node.members()[0];
  if (kind != "normal" && kind != "uniform" && kind != "constant") {
    throw UserError(node.key_loc(kind), fmt::format("{}: wanted {}, found \"{}\"{}", node.label(), kForms, kind,
                                                    suggestion(kind, {"normal", "uniform", "constant"})));
  }
  double value = sizes.resolve_number(argument);
  if (kind != "constant" && value <= 0) argument.fail_type("a number above 0");
  attributes.set("init", kind);
  attributes.set(kind == "normal" ? "std" : kind == "uniform" ? "bound" : "value", value);
}

void default_initializer(std::string_view init, Attributes& attributes) {
  attributes.set("init", std::string(init));
  if (init == "normal") attributes.set("std", kDefaultWeightStd);
}

}  // namespace tpc
