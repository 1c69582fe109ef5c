/// A collective as calls of a library that reduces and gathers flat, equal pieces (NCCL): what has another form goes by
/// pieces between pairs of ranks, packed where they do not lie together.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/lowering/collective_step.h"

namespace tpc {

/// Where a call reads or writes, in elements from the start of the rank's input, output, or working memory.
struct CallBuffer {
  enum class Place : uint8_t { kInput, kOutput, kWorkspace };
  Place place = Place::kInput;
  int64_t offset = 0;
  bool operator==(const CallBuffer&) const = default;
};

enum class CollectiveCallKind : uint8_t {
  kAllReduce,      ///< `count` elements
  kReduceScatter,  ///< `count` elements to each member
  kAllGather,      ///< `count` elements from each member
  kSend,           ///< to member `peer`
  kReceive,        ///< from member `peer`
  kGroupStart,     ///< sends and receives up to the end belong together
  kGroupEnd,
  kCopy,    ///< the elements that the regions share, between dense tensors of these regions
  kReduce,  ///< to[i] = sum or maximum over p < num_pieces of from[p * count + i], in that order
};

/// "all_reduce", ..., "send", "receive", "group_start", "group_end", "copy", "reduce".
std::string_view to_string(CollectiveCallKind kind);

struct CollectiveCall {
  CollectiveCallKind kind = CollectiveCallKind::kAllReduce;
  CallBuffer from;
  CallBuffer to;
  int64_t count = 0;  ///< elements
  int64_t peer = -1;  ///< of kSend and kReceive: position in the group
  int64_t num_pieces = 0;
  Region from_region;  ///< of kCopy
  Region to_region;
};

struct CollectiveCalls {
  std::vector<CollectiveCall> calls;
  /// Working memory, in elements.
  int64_t workspace = 0;
  /// Elements that the rank receives from its peers: what the calls move, where a reduction moves its balanced blocks.
  int64_t received = 0;
};

/// Progress is told of so many collectives of a step: after each of them its number is copied to the host.
inline constexpr int64_t kMostCountedCollectives = 1 << 16;

/// In order; buffers that overlap are respected. Reductions that go by pieces add in the order of the group.
CollectiveCalls collective_calls(const CollectiveStep& step);

}  // namespace tpc
