/// Strong index types: a ValueId is never a NodeId, a dimension or a rank by accident.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace tpc {

template <class Tag>
struct StrongId {
  int32_t index = -1;

  bool is_valid() const { return index >= 0; }
  size_t position() const { return static_cast<size_t>(index); }
  auto operator<=>(const StrongId&) const = default;
};

using ValueId = StrongId<struct ValueIdTag>;

}  // namespace tpc
