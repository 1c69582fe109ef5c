#include "compiler/plan/step_attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/core/diagnostic.h"

namespace tpc {
namespace {

enum class AttributeKind : uint8_t { kBool, kInt, kReal, kText, kInts };

struct AttributeForm {
  std::string name;
  AttributeKind kind = AttributeKind::kBool;
  bool is_required = true;
};

constexpr AttributeKind kBool = AttributeKind::kBool;
constexpr AttributeKind kInt = AttributeKind::kInt;
constexpr AttributeKind kReal = AttributeKind::kReal;
constexpr AttributeKind kText = AttributeKind::kText;
constexpr AttributeKind kInts = AttributeKind::kInts;

std::vector<AttributeForm> forms_of(OpKind op) {
  switch (op) {
    case OpKind::kAdamW:
      return {{"lr", kReal},  {"beta1", kReal},        {"beta2", kReal},
              {"eps", kReal}, {"weight_decay", kReal}, {"has_coefficient", kBool}};
    case OpKind::kSgd:
      return {{"lr", kReal}, {"momentum", kReal}, {"weight_decay", kReal}, {"has_coefficient", kBool}};
    case OpKind::kAllGather:
    case OpKind::kAllToAll:
    case OpKind::kLocalSlice:
    case OpKind::kMask:
    case OpKind::kZeroPad:
      return {{"axes", kInts}};
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
      return {{"axes", kInts}, {"op", kText}};
    case OpKind::kAttention:
      return {{"causal", kBool}, {"scale", kReal}};
    case OpKind::kAttentionGrad:
      return {{"causal", kBool}, {"scale", kReal}, {"sums", kText, false}};
    case OpKind::kBroadcastTo:
      return {{"shape", kInts}, {"dims", kInts}};
    case OpKind::kCast:
      return {{"to", kText}};
    case OpKind::kClipCoefficient:
      return {{"max_norm", kReal}};
    case OpKind::kConcat:
      return {{"dim", kInt}, {"stack", kBool}};
    case OpKind::kContract:
      return {{"einsum", kText}, {"sums", kText, false}};
    case OpKind::kDropout:
      return {{"rate", kReal}, {"stream", kText}};
    case OpKind::kEmbedding:
      return {{"sums", kText, false}};
    case OpKind::kEmbeddingGrad:
      return {{"rows", kInt}};
    case OpKind::kFill:
      return {{"shape", kInts}, {"value", kReal}};
    case OpKind::kInput:
      return {{"shape", kInts}, {"dtype", kText}};
    case OpKind::kState:
      return {{"shape", kInts}};
    case OpKind::kParameter:
      return {{"shape", kInts},      {"dtype", kText},        {"init", kText},        {"trainable", kBool},
              {"std", kReal, false}, {"bound", kReal, false}, {"value", kReal, false}};
    case OpKind::kLayerNorm:
    case OpKind::kRmsNorm:
      return {{"eps", kReal}};
    case OpKind::kOutput:
      return {{"name", kText}};
    case OpKind::kPad:
      return {{"dim", kInt}, {"start", kInt}, {"size", kInt}, {"insert", kBool}};
    case OpKind::kReduceSum:
      return {{"dims", kInts}, {"sums", kText, false}};
    case OpKind::kReshape:
      return {{"shape", kInts}};
    case OpKind::kRope:
      return {{"theta", kReal}, {"rotary_dim", kInt}, {"interleaved", kBool}, {"inverse", kBool}};
    case OpKind::kScale:
      return {{"factor", kReal}};
    case OpKind::kSlice:
      return {{"dim", kInt}, {"start", kInt}, {"length", kInt}, {"drop", kBool}};
    case OpKind::kTokenLoss:
    case OpKind::kTokenLossGrad:
      return {{"ignore_index", kInt}};
    case OpKind::kTranspose:
      return {{"permutation", kInts}};
    case OpKind::kUnary:
    case OpKind::kUnaryGrad:
      return {{"function", kText}};
    case OpKind::kAdd:
    case OpKind::kDivide:
    case OpKind::kLayerNormGrad:
    case OpKind::kMultiply:
    case OpKind::kRedistribute:
    case OpKind::kRmsNormGrad:
    case OpKind::kRowMax:
    case OpKind::kSoftmax:
    case OpKind::kSoftmaxGrad:
    case OpKind::kSoftmaxStats:
    case OpKind::kSoftmaxStatsGrad:
    case OpKind::kSquareRoot:
    case OpKind::kSubtract:
    case OpKind::kSumSquares:
    case OpKind::kUpdate:
      return {};
  }
  return {};
}

std::string_view kind_text(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool:
      return "a boolean";
    case AttributeKind::kInt:
      return "an integer";
    case AttributeKind::kReal:
      return "a number with a point or exponent";
    case AttributeKind::kText:
      return "a text";
    case AttributeKind::kInts:
      return "a list of integers";
  }
  return "";
}

bool is_kind(const Attribute& value, AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kBool:
      return std::holds_alternative<bool>(value);
    case AttributeKind::kInt:
      return std::holds_alternative<int64_t>(value);
    case AttributeKind::kReal:
      return std::holds_alternative<double>(value) && std::isfinite(std::get<double>(value));
    case AttributeKind::kText:
      return std::holds_alternative<std::string>(value);
    case AttributeKind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(value);
  }
  return false;
}

std::optional<AttributeMistake> compare(const std::vector<AttributeForm>& forms, const Attributes& attributes,
                                        const std::string& owner) {
  for (const AttributeForm& form : forms) {
    auto found = attributes.items().find(form.name);
    if (found == attributes.items().end()) {
      if (!form.is_required) continue;
      return AttributeMistake{"",
                              fmt::format("{} needs the attribute \"{}\", {}", owner, form.name, kind_text(form.kind))};
    }
    if (!is_kind(found->second, form.kind)) {
      return AttributeMistake{form.name, fmt::format("attribute \"{}\" of {} is {}, found {}", form.name, owner,
                                                     kind_text(form.kind), to_string(found->second))};
    }
  }
  std::vector<std::string> names;
  for (const AttributeForm& form : forms) names.push_back(form.name);
  for (const auto& [name, value] : attributes.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string nearest = nearest_word(name, names);
    std::string known = names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
    return AttributeMistake{
        name, nearest.empty() ? fmt::format("{} has no attribute \"{}\"; known: {}", owner, name, known)
                              : fmt::format("{} has no attribute \"{}\"; did you mean \"{}\"?", owner, name, nearest)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<AttributeMistake> attribute_mistake(OpKind op, const Attributes& attributes) {
  return compare(forms_of(op), attributes, std::string(op_name(op)));
}

std::optional<AttributeMistake> initializer_mistake(const Attributes& attributes) {
  const std::string& init = attributes.get_string("init");
  std::string needed = init == "normal" ? "std" : init == "uniform" ? "bound" : init == "constant" ? "value" : "";
  if (needed.empty() || attributes.has(needed)) return std::nullopt;
  return AttributeMistake{"", fmt::format("init \"{}\" needs the attribute \"{}\"", init, needed)};
}

}  // namespace tpc
