/// The user's wishes for placements: "shard" of a layer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/frontend/json_node.h"
#include "compiler/frontend/named_sizes.h"
#include "compiler/ir/graph.h"

namespace tpc {

/// What a layer offers to be pinned: the tensors of the node that bears the annotation.
struct AnnotatedLayer {
  std::string quoted_name;
  Dims input;
  std::optional<Dims> weight;
  Dims output;
  /// It may be "column" or "row": a linear or an embedding.
  bool has_linear_weight = false;
};

/// Reads "column" | "row" | "replicate", or {"input" | "weight" | "output": "R" | "S(NAME or INDEX)"}.
Annotation read_annotation(const JsonNode& node, const AnnotatedLayer& layer);

/// A dimension looked up by its name.
struct DimSearch {
  std::optional<int64_t> index;
  bool is_ambiguous = false;
};
DimSearch find_dim(const Dims& dims, const std::string& name);
/// Why find_dim found nothing, and what there is. `what` names the tensor.
std::string explain_missing_dim(const DimSearch& search, const Dims& dims, const std::string& name,
                                std::string_view what);

}  // namespace tpc
