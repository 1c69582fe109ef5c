#include "compiler/frontend/precision_json.h"

#include <nlohmann/json.hpp>

namespace tpc {
namespace {

const std::vector<std::string> kTypes = {"f32", "bf16"};

DType read_type(const JsonNode& node) { return *parse_dtype(node.as_word(kTypes)); }

}  // namespace

Precision read_precision(const JsonNode& node, DiagnosticSink& sink) {
  if (node.is_string()) return {read_type(node), DType::kF32};
  if (!node.is_object()) node.fail_type("\"f32\", \"bf16\" or an object with \"compute\" and \"reduce\"");
  if (node.report_unknown_keys({"compute", "reduce", "comment"}, "\"precision\"", sink)) return {};
  Precision precision{read_type(node.required("compute", "\"precision\"")), DType::kF32};
  std::optional<JsonNode> reduce = node.find("reduce");
  if (reduce) precision.reduce = read_type(*reduce);
  if (!precision.is_mixed() && precision.reduce != DType::kF32) {
    reduce->fail("sums across ranks in bf16 of what is computed in f32; \"compute\": \"bf16\" goes with it");
  }
  return precision;
}

nlohmann::json precision_json(const Precision& precision) {
  std::string compute(to_string(precision.compute));
  if (precision.reduce == DType::kF32) return compute;
  return {{"compute", compute}, {"reduce", std::string(to_string(precision.reduce))}};
}

}  // namespace tpc
