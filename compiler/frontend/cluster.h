/// Cluster files: the links over which the ranks of each mesh axis talk.
///
///   {"format": "tpc-cluster", "version": 1,
///    "axes": {"tp": {"gigabytes_per_second": 450, "microseconds": 3},
///             "dp": {"gigabytes_per_second": 50, "microseconds": 10}}}
#pragma once

#include <string>
#include <vector>

#include "compiler/sharding/device_mesh.h"
#include "compiler/sharding/move_price.h"

namespace tpc {

/// Bandwidth is what one rank receives, in 10^9 bytes a second; microseconds are the latency of a step of a ring.
/// UserError lists every mistake, and an axis of `mesh` (of more than one rank) without a link.
std::vector<AxisLink> load_cluster(const std::string& path, const DeviceMesh& mesh);
std::vector<AxisLink> parse_cluster(const std::string& text, const std::string& file, const DeviceMesh& mesh);

}  // namespace tpc
