#include "passes/localize_shapes.h"

namespace tpc {

Graph localize_shapes(Graph graph, const PassContext& /*context*/) {
  for (Value& value : graph.values) value.local_shape = fullest_shape(value.type.shape, value.sharding, graph.mesh);
  return graph;
}

}  // namespace tpc
