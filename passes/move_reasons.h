/// Why moves are there, in the user's terms.
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/sharding/collective.h"
#include "passes/dimension_names.h"

namespace tpc {

/// A use that wants a value otherwise than it lies.
struct WantedMove {
  ValueId value;
  const Node& producer;
  const TensorSharding& from;
  const Node& user;
  const TensorSharding& to;
};

/// Who made the placement and who wants the other: "each rank holds a part of the sum that is "block0.proj";
/// "block0.res1" (add) needs the whole".
std::string move_reason(const Graph& graph, const DimensionNames& names, const WantedMove& wanted);

/// Of move `index` of the path that carries out a redistribute with the reason `whole`: a gather after a sum is there
/// for another reason than the sum. `value` has the dimensions of what is moved.
std::string part_reason(const Graph& graph, const DimensionNames& names, ValueId value, const std::vector<Move>& path,
                        size_t index, const std::string& whole);

}  // namespace tpc
