// The report for programs: JSON and CSV, exact numbers.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

#include "compiler/plan/report.h"

namespace tpc {
namespace {

using Json = nlohmann::ordered_json;

/// Whole numbers without a point.
Json number(double value) {
  bool is_whole = value == std::floor(value) && std::abs(value) < 9007199254740992.0;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json to_json(const CollectiveRow& row) {
  return {{"step", row.step},
          {"tensor", row.tensor},
          {"layer", row.layer},
          {"block", row.block},
          {"phase", to_string(row.phase)},
          {"axis", row.axis},
          {"kind", op_name(row.kind)},
          {"dtype", to_string(row.dtype)},
          {"group_size", row.group_size},
          {"elements", row.elements},
          {"volume_elements", number(row.volume_elements)},
          {"volume_phi", number(row.volume_phi)},
          {"received_bytes_max", row.received_bytes_max},
          {"received_bytes_min", row.received_bytes_min},
          {"ring_bytes", number(row.ring_bytes)},
          {"seconds", row.seconds},
          {"why", row.why}};
}

Json to_json(const VolumeTotal& total) {
  return {{"name", total.name},
          {"collectives", total.collectives},
          {"volume_elements", number(total.volume_elements)},
          {"volume_phi", number(total.volume_phi)},
          {"received_bytes", total.received_bytes},
          {"seconds", total.seconds}};
}

Json to_json(const RankLoad& rank) {
  return {{"rank", rank.rank},
          {"coordinate", rank.coordinate},
          {"ranks_like_it", rank.ranks_like_it},
          {"parameters", rank.parameters},
          {"parameter_bytes", rank.parameter_bytes},
          {"gradient_bytes", rank.gradient_bytes},
          {"optimizer_state_bytes", rank.optimizer_state_bytes},
          {"input_bytes", rank.input_bytes},
          {"peak_activation_bytes", rank.peak_activation_bytes},
          {"peak_step", rank.peak_step},
          {"multiply_adds", number(rank.multiply_adds)},
          {"received_bytes", rank.received_bytes}};
}

Json to_json(const Imbalance& imbalance) {
  return {{"quantity", imbalance.quantity},     {"most", number(imbalance.most)},
          {"least", number(imbalance.least)},   {"mean", number(imbalance.mean)},
          {"ratio", number(imbalance.ratio())}, {"fullest_rank", imbalance.fullest_rank}};
}

template <class Item>
Json list(const std::vector<Item>& items) {
  Json result = Json::array();
  for (const Item& item : items) result.push_back(to_json(item));
  return result;
}

/// RFC 4180: quoted where needed, quotes doubled.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string report_json(const Report& report) {
  Json mesh = Json::array();
  for (const MeshAxis& axis : report.mesh.axes()) mesh.push_back({{"axis", axis.name}, {"size", axis.size}});
  Json json{{"format", "tpc-report"},          {"version", 1},
            {"model", report.model},           {"mesh", mesh},
            {"world_size", report.world_size}, {"options", report.options}};
  if (report.proof) {
    const SearchProof& proof = *report.proof;
    json["proof"] = {{"objective", proof.objective}, {"price", proof.price},
                     {"bound", proof.bound},         {"is_optimal", proof.is_optimal()},
                     {"memory", proof.memory},       {"memory_limit", proof.memory_limit},
                     {"decisions", proof.decisions}, {"choices", proof.choices}};
  }
  if (report.has_links) json["seconds"] = number(report.step.seconds);
  json["phi"] = {{"elements", report.phi.elements},
                 {"shape", report.phi.shape},
                 {"whole_shape", report.phi.whole_shape},
                 {"tensor", report.phi.tensor}};
  json["collectives"] = list(report.collectives);
  json["totals"] = {{"step", to_json(report.step)}, {"phase", list(report.by_phase)}, {"axis", list(report.by_axis)},
                    {"kind", list(report.by_kind)}, {"block", list(report.by_block)}, {"layer", list(report.by_layer)}};
  json["arena_bytes"] = report.arena_bytes;
  json["persistent_bytes"] = report.persistent_bytes;
  if (report.device_memory) {
    const DeviceMemoryNeed& need = *report.device_memory;
    json["device_memory"] = {{"rank", need.rank},
                             {"total_bytes", need.total()},
                             {"arena_bytes", need.arena_bytes},
                             {"compute_workspace_bytes", need.compute_bytes},
                             {"communication_workspace_bytes", need.communication_bytes}};
  }
  json["has_all_ranks"] = report.has_all_ranks;
  json["ranks"] = list(report.ranks);
  json["imbalances"] = list(report.imbalances);
  if (report.data_against_tensor) {
    const DataAgainstTensor& comparison = *report.data_against_tensor;
    json["data_against_tensor"] = {{"tokens", comparison.tokens},
                                   {"hidden", comparison.hidden},
                                   {"data_elements", number(comparison.data_elements)},
                                   {"tensor_elements", number(comparison.tensor_elements)},
                                   {"equal_tokens", number(comparison.equal_tokens)}};
  }
  return json.dump(2) + "\n";
}

std::string report_csv(const Report& report) {
  std::string text =
      "step,tensor,layer,block,phase,axis,kind,dtype,group_size,elements,volume_elements,volume_phi,received_bytes_max,"
      "received_bytes_min,ring_bytes,why,seconds\n";
  for (const CollectiveRow& row : report.collectives) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.step, csv_cell(row.tensor),
                        csv_cell(row.layer), csv_cell(row.block), to_string(row.phase), row.axis, op_name(row.kind),
                        to_string(row.dtype), row.group_size, row.elements, row.volume_elements, row.volume_phi,
                        row.received_bytes_max, row.received_bytes_min, row.ring_bytes, csv_cell(row.why), row.seconds);
  }
  return text;
}

}  // namespace tpc
