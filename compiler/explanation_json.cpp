#include <nlohmann/json.hpp>

#include "compiler/core/check.h"
#include "compiler/explanation_text.h"
#include "compiler/plan/model_words.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(ExplainedNode::Kind kind) {
  switch (kind) {
    case ExplainedNode::Kind::kLayer:
      return "layer";
    case ExplainedNode::Kind::kTensor:
      return "tensor";
    case ExplainedNode::Kind::kStep:
      return "step";
  }
  TPC_UNREACHABLE("kind {}", static_cast<int>(kind));
}

Json to_json(const PlacedTensor& tensor) { return {{"tensor", tensor.name}, {"placement", tensor.placement}}; }

Json to_json(const StepSplit& split) {
  return {{"by", split.by},           {"operands", split.operands},
          {"results", split.results}, {"leaves", !split.leaves_part ? "" : split.is_maximum ? "maximum" : "sum"},
          {"used_on", split.used_on}, {"refused", split.refused}};
}

Json to_json(const Alternative& way) {
  return {{"way", way.way},
          {"chosen", way.is_chosen},
          {"leaves_sum", way.leaves_sum},
          {"price", way.price ? Json(*way.price) : Json(nullptr)},
          {"memory", way.memory}};
}

Json to_json(const WayAround& way) {
  return {{"change", way.change},
          {"becomes", way.becomes},
          {"received_bytes", way.received},
          {"collectives", way.collectives},
          {"arena_bytes", way.arena_bytes}};
}

Json to_json(const ExplainedStep& step);
Json to_json(const NodeAlternatives& node);
Json to_json(const ExplainedCollective& collective);

template <class Item>
Json list(const std::vector<Item>& items) {
  Json result = Json::array();
  for (const Item& item : items) result.push_back(to_json(item));
  return result;
}

Json to_json(const ExplainedStep& step) {
  return {{"step", step.step},         {"op", op_name(step.op)},     {"phase", to_string(step.phase)},
          {"layer", step.layer},       {"role", step.role},          {"reads", list(step.reads)},
          {"makes", list(step.makes)}, {"splits", list(step.splits)}};
}

Json to_json(const NodeAlternatives& node) {
  return {{"op", node.op}, {"result", node.result}, {"ways", list(node.ways)}};
}

Json to_json(const ExplainedCollective& collective) {
  const CollectiveRow& row = collective.row;
  return {{"step", row.step},
          {"what", collective.what},
          {"tensor", row.tensor},
          {"layer", row.layer},
          {"phase", to_string(row.phase)},
          {"kind", op_name(row.kind)},
          {"axis", row.axis},
          {"received_bytes", row.received_bytes_max},
          {"seconds", row.seconds},
          {"why", row.why},
          {"rule", collective.rule},
          {"without_sum", collective.without_sum ? to_json(*collective.without_sum) : Json(nullptr)},
          {"ways_around", list(collective.ways)}};
}

}  // namespace

std::string explanation_json(const Plan& plan, const CompileOptions& options, const Explanation& explanation) {
  const Report& report = explanation.report;
  Json json{{"format", "tpc-explain"},
            {"version", 1},
            {"node", explanation.node.name},
            {"kind", to_string(explanation.node.kind)},
            {"model", plan.model_name},
            {"strategy", options.strategy},
            {"price_unit", options.price.is_time() ? "picoseconds" : "bytes"},
            {"received_bytes", report.step.received_bytes},
            {"collective_count", report.step.collectives},
            {"arena_bytes", plan.arena_bytes},
            {"steps", list(explanation.steps)},
            {"alternatives", list(explanation.alternatives)},
            {"not_priced", explanation.not_priced},
            {"collectives", list(explanation.collectives)},
            {"tried", explanation.tried},
            {"impossible", explanation.impossible}};
  return json.dump(2) + "\n";
}

}  // namespace tpc
