#include "compiler/frontend/optimizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tpc {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

// Reads a number from `smallest` on (not including it when `is_open`) to below `end`.
double read_number(const JsonNode& node, double smallest, bool is_open, double end) {
  double value = node.as_number();
  bool fits = (is_open ? value > smallest : value >= smallest) && value < end;
  if (fits) return value;
  std::string wanted = fmt::format("a number {} {}", is_open ? "above" : "from", smallest);
  if (end != kAny) wanted += fmt::format(" to below {}", end);
  if (end == kAny && !is_open) wanted = fmt::format("a number not below {}", smallest);
  node.fail_type(wanted);
}

void read_betas(const JsonNode& node, OptimizerSettings& settings) {
  std::vector<JsonNode> betas = node.elements();
  if (betas.size() != 2) node.fail(fmt::format("\"betas\": wanted two numbers, found {}", betas.size()));
  settings.beta1 = read_number(betas[0], 0, /*is_open=*/false, 1);
  settings.beta2 = read_number(betas[1], 0, /*is_open=*/false, 1);
}

void read_field(const std::string& key, const JsonNode& node, OptimizerSettings& settings) {
  if (key == "lr") settings.lr = read_number(node, 0, /*is_open=*/true, kAny);
  if (key == "betas") read_betas(node, settings);
  if (key == "eps") settings.eps = read_number(node, 0, /*is_open=*/true, kAny);
  if (key == "weight_decay") settings.weight_decay = read_number(node, 0, /*is_open=*/false, kAny);
  if (key == "momentum") settings.momentum = read_number(node, 0, /*is_open=*/false, 1);
  if (key == "clip_norm") settings.clip_norm = read_number(node, 0, /*is_open=*/true, kAny);
}

}  // namespace

OptimizerSettings read_optimizer(const JsonNode& node, DiagnosticSink& sink) {
  static const std::vector<std::string> kAdamWKeys = {"type",         "lr",        "betas",  "eps",
                                                      "weight_decay", "clip_norm", "comment"};
  static const std::vector<std::string> kSgdKeys = {"type", "lr", "momentum", "weight_decay", "clip_norm", "comment"};
  OptimizerSettings settings;
  settings.pointer = node.pointer();
  auto collect = [&](const UserError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) sink.add(diagnostic);
  };
  try {
    node.expect_object();
    settings.type = node.required("type", "\"optimizer\"").as_word({"adamw", "sgd"});
  } catch (const UserError& error) {
    collect(error);
    return settings;
  }
  if (settings.type == "sgd") settings.weight_decay = 0;
  const std::vector<std::string>& own = settings.type == "sgd" ? kSgdKeys : kAdamWKeys;
  const std::vector<std::string>& other = settings.type == "sgd" ? kAdamWKeys : kSgdKeys;
  for (const auto& [key, member] : node.members()) {
    if (std::find(own.begin(), own.end(), key) == own.end()) {
      if (std::find(other.begin(), other.end(), key) != other.end()) {
        sink.error(node.key_loc(key), fmt::format("\"{}\" belongs to \"{}\"; this optimizer is \"{}\"", key,
                                                  settings.type == "sgd" ? "adamw" : "sgd", settings.type));
      } else {
        std::string way_out = suggestion(key, own);
        if (way_out.empty()) way_out = "; it has " + quoted_list(own, " and ");
        sink.error(node.key_loc(key), fmt::format("\"optimizer\" has no key \"{}\"{}", key, way_out));
      }
      continue;
    }
    try {
      read_field(key, member, settings);
    } catch (const UserError& error) {
      collect(error);
    }
  }
  if (!node.has("lr")) sink.error(node.loc(), "\"optimizer\" needs \"lr\"");
  return settings;
}

}  // namespace tpc
