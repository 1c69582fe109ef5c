// Where values come from: parameters, inputs, optimizer states and constants.
#include <fmt/format.h>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/type_checks.h"

namespace tpc {
namespace {

const std::vector<std::string> kInits = {"normal", "uniform", "zeros", "ones", "constant"};

TensorType declared_type(const OpQuery& query, std::string_view what) {
  const std::string& text = query.attributes.get_string("dtype");
  require_choice(text, {"f32", "i32"}, "dtype");
  TensorType type{*parse_dtype(text), query.attributes.get_ints("shape")};
  require_sizes(type.shape, what);
  return type;
}

std::vector<TensorType> infer_parameter(const OpQuery& query) {
  TensorType type = declared_type(query, "parameter");
  require_f32(type, "parameter");
  const std::string& init = query.attributes.get_string("init");
  require_choice(init, kInits, "init");
  for (const char* name : {"std", "bound"}) {
    if (!query.attributes.has(name) || query.attributes.get_double(name) >= 0) continue;
    throw OpTypeError(fmt::format("\"{}\" must not be negative, found {}", name, query.attributes.get_double(name)));
  }
  return {type};
}

std::vector<TensorType> infer_input(const OpQuery& query) { return {declared_type(query, "input")}; }

std::vector<TensorType> infer_f32(const OpQuery& query) {
  const Shape& shape = query.attributes.get_ints("shape");
  require_sizes(shape, "tensor");
  return {TensorType{DType::kF32, shape}};
}

// Every rank can make a constant whole; a constant that is Partial would need to know on how many.
ShardingRule replicated_rule(const OpQuery&) { return {}; }

OpCost no_cost(const OpQuery&) { return {}; }

void fill_reference(const ReferenceArgs& args) {
  double value = args.attributes.get_double("value");
  for_each_element(args, [&](auto at) { args.results[0].data[at[0]] = value; });
}

}  // namespace

const OpDef kParameterOp = {
    .kind = OpKind::kParameter,
    .name = "parameter",
    .summary = "a weight, kept from step to step",
    .infer_types = infer_parameter,
    .cost = no_cost,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

const OpDef kInputOp = {
    .kind = OpKind::kInput,
    .name = "input",
    .summary = "a tensor that every step is given",
    .infer_types = infer_input,
    .cost = no_cost,
};

const OpDef kStateOp = {
    .kind = OpKind::kState,
    .name = "state",
    .summary = "an optimizer's tensor, kept from step to step; starts as zeros",
    .infer_types = infer_f32,
    .cost = no_cost,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

const OpDef kFillOp = {
    .kind = OpKind::kFill,
    .name = "fill",
    .summary = "y = value",
    .infer_types = infer_f32,
    .sharding_rule = replicated_rule,
    .cost = elementwise_cost<0>,
    .reference = fill_reference,
    .floats = {{FloatRole::kFull}, {FloatRole::kFull}},
};

}  // namespace tpc
