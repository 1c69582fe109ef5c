#include "compiler/frontend/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/input_file.h"
#include "compiler/frontend/json_node.h"
#include "compiler/frontend/json_text.h"

namespace tpc {
namespace {

constexpr const char* kFormat = "tpc-cluster";
constexpr int64_t kVersion = 1;

/// Beyond these a time is no longer a number of picoseconds that can be added up.
constexpr double kSlowest = 1e-6;
constexpr double kFastest = 1e9;
constexpr double kLongest = 1e9;

double between(const JsonNode& node, double least, double most) {
  double value = node.as_number();
  if (!(value >= least && value <= most)) node.fail_type(fmt::format("a number from {} to {}", least, most));
  return value;
}

AxisLink read_link(const std::string& name, const JsonNode& node, DiagnosticSink& sink) {
  node.expect_object();
  std::string owner = fmt::format("axis \"{}\"", name);
  node.report_unknown_keys({"gigabytes_per_second", "microseconds", "comment"}, owner, sink);
  AxisLink link;
  link.axis = name;
  link.bytes_per_second = 1e9 * between(node.required("gigabytes_per_second", owner), kSlowest, kFastest);
  link.latency_seconds = between(node.required("microseconds", owner), 0, kLongest) / 1e6;
  return link;
}

}  // namespace

std::vector<AxisLink> parse_cluster(const std::string& text, const std::string& file, const DeviceMesh& mesh) {
  nlohmann::json document = parse_json(text, file);
  JsonNode cluster(document, file, "the cluster");
  cluster.expect_object();
  JsonNode format = cluster.required("format", "the cluster");
  if (format.as_string() != kFormat) format.fail_type(fmt::format("\"{}\"", kFormat));
  JsonNode version = cluster.required("version", "the cluster");
  if (version.as_int(0, INT32_MAX) != kVersion) {
    version.fail(fmt::format("cluster file version {}; this program reads version {}", version.found(), kVersion));
  }
  DiagnosticSink sink;
  cluster.report_unknown_keys({"format", "version", "axes", "comment"}, "the cluster", sink);
  JsonNode axes = cluster.required("axes", "the cluster");
  axes.expect_object();
  std::vector<AxisLink> links;
  for (const auto& [name, node] : axes.members()) {
    try {
      links.push_back(read_link(name, node, sink));
    } catch (const UserError& error) {
      for (const Diagnostic& diagnostic : error.diagnostics()) sink.add(diagnostic);
    }
  }
  sink.throw_if_errors();
  for (const MeshAxis& axis : mesh.axes()) {
    bool known = std::any_of(links.begin(), links.end(), [&](const AxisLink& link) { return link.axis == axis.name; });
    if (!known && axis.size > 1)
      axes.fail(fmt::format("the mesh has an axis \"{}\", the cluster has no link for it", axis.name));
  }
  // A plan carries the links of its own axes.
  std::erase_if(links, [&](const AxisLink& link) {
    return std::none_of(mesh.axes().begin(), mesh.axes().end(),
                        [&](const MeshAxis& axis) { return axis.name == link.axis; });
  });
  return links;
}

std::vector<AxisLink> load_cluster(const std::string& path, const DeviceMesh& mesh) {
  return parse_cluster(read_file(path, "a cluster file"), path, mesh);
}

}  // namespace tpc
