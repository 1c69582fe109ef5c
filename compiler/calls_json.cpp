#include <nlohmann/json.hpp>

#include "compiler/calls_text.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const CallTensor& tensor) {
  Json json = Json::object();
  if (!tensor.role.empty()) json["role"] = tensor.role;
  if (!tensor.name.empty()) json["tensor"] = tensor.name;
  if (tensor.type) json["dtype"] = to_string(tensor.type->dtype);
  if (tensor.type) json["shape"] = tensor.type->shape;
  json["place"] = to_string(tensor.place);
  if (tensor.place != CallPlace::kHost) json["offset"] = tensor.offset;
  return json;
}

Json to_json(const BlasMatrix& matrix) {
  return {{"dtype", to_string(matrix.dtype)},    {"rows", matrix.rows},
          {"columns", matrix.columns},           {"ld", matrix.ld},
          {"batch_stride", matrix.batch_stride}, {"op", matrix.is_transposed ? "T" : "N"}};
}

Json to_json(const Matmul& matmul) {
  Json json{{"m", matmul.m},          {"n", matmul.n},
            {"k", matmul.k},          {"batch", matmul.batch},
            {"a", to_json(matmul.a)}, {"b", to_json(matmul.b)},
            {"d", to_json(matmul.d)}, {"epilogue", to_string(matmul.epilogue)},
            {"flops", matmul.flops()}};
  if (matmul.aux_ld > 0) json["aux_ld"] = matmul.aux_ld;
  return json;
}

Json to_json(const NcclCall& nccl) {
  Json json{{"kind", to_string(nccl.kind)}, {"ranks", nccl.ranks}};
  if (nccl.count == 0) return json;
  json["count"] = nccl.count;
  json["dtype"] = to_string(nccl.dtype);
  bool reduces = nccl.kind == CollectiveCallKind::kAllReduce || nccl.kind == CollectiveCallKind::kReduceScatter;
  if (reduces) json["op"] = to_string(nccl.reduce);
  if (nccl.peer >= 0) json["peer"] = nccl.peer;
  return json;
}

Json to_json(const DeviceCall& call);

template <class Item>
Json list(const std::vector<Item>& items) {
  Json result = Json::array();
  for (const Item& item : items) result.push_back(to_json(item));
  return result;
}

Json to_json(const DeviceCall& call) {
  Json json{{"kind", to_string(call.kind)}, {"stream", to_string(call.queue)}, {"name", call.name}};
  if (call.event >= 0) {
    json["event"] = call.event;
    return json;
  }
  json["writes"] = list(call.writes);
  json["reads"] = list(call.reads);
  if (call.kind == DeviceCallKind::kCopy || call.kind == DeviceCallKind::kFill) json["bytes"] = call.bytes;
  if (call.kind == DeviceCallKind::kKernel) {
    json["launches"] = call.launches;
    json["steps_together"] = call.num_steps;
  }
  if (call.matmul) {
    json["matmul"] = to_json(*call.matmul);
    json["workspace_bytes"] = call.workspace;
  }
  if (call.nccl) json["nccl"] = to_json(*call.nccl);
  return json;
}

Json to_json(const DeviceUnit& unit) {
  Json json{{"segment", unit.segment}};
  if (unit.first >= 0) {
    json["first_step"] = unit.first;
    json["end_step"] = unit.end;
    json["layer"] = unit.layer;
  }
  if (unit.received_bytes > 0) json["received_bytes"] = unit.received_bytes;
  json["calls"] = list(unit.calls);
  return json;
}

}  // namespace

std::string calls_json(const Plan& plan, const DeviceCalls& calls, const CallsFilter& filter) {
  const CallTotals& totals = calls.totals;
  Json units = Json::array();
  for (const DeviceUnit& unit : calls.units) {
    if (filter(unit)) units.push_back(to_json(unit));
  }
  Json json{
      {"format", "tpc-calls"},
      {"version", 1},
      {"model", plan.model_name},
      {"world_size", plan.mesh.world_size()},
      {"rank", calls.rank},
      {"arena_bytes", calls.arena_bytes},
      {"workspace_bytes", {{"compute", calls.workspace.compute}, {"communication", calls.workspace.communication}}},
      {"totals",
       {{"kernels", totals.kernels},
        {"matmuls", totals.matmuls},
        {"matmul_flops", totals.matmul_flops},
        {"nccl_calls", totals.collective_calls},
        {"received_bytes", totals.received_bytes},
        {"copies", totals.copies},
        {"fills", totals.fills},
        {"records", totals.records},
        {"waits", totals.waits}}},
      {"units", std::move(units)}};
  return json.dump(2) + "\n";
}

}  // namespace tpc
