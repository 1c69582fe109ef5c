/// Nodes that are alike.
#pragma once

#include <string>

#include "compiler/ir/graph.h"

namespace tpc {

/// Equal for nodes of the same op, attributes and types of operands and results: whatever an op's functions say of one
/// holds for the other. Bytes, not text.
std::string node_kind_key(const Graph& graph, const Node& node);

/// Appends a sharding to such a key.
void append_sharding(std::string& key, const TensorSharding& sharding);

}  // namespace tpc
