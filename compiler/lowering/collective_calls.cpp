#include "compiler/lowering/collective_calls.h"

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

using Place = CallBuffer::Place;

// Where `part` begins in the dense tensor that holds `whole`, if it lies together there; -1 if it does not.
int64_t contiguous_offset(const Region& part, const Region& whole) {
  int64_t offset = 0;
  int64_t stride = 1;
  bool must_be_single = false;
  for (size_t d = whole.dims.size(); d > 0; --d) {
    const Interval& inner = part.dims[d - 1];
    const Interval& outer = whole.dims[d - 1];
    if (must_be_single && inner.size() != 1) return -1;
    must_be_single = must_be_single || inner.size() != outer.size();
    offset += (inner.begin - outer.begin) * stride;
    stride *= outer.size();
  }
  return offset;
}

class Builder {
 public:
  explicit Builder(const CollectiveStep& step) : step_(step), size_(step.group.size()) {}

  CollectiveCalls run() {
    switch (step_.op) {
      case OpKind::kAllReduce:
        all_reduce();
        break;
      case OpKind::kAllGather:
        if (!gather_in_one()) exchange();
        break;
      case OpKind::kReduceScatter:
        if (!scatter_in_one()) reduce_pieces();
        break;
      case OpKind::kAllToAll:
        exchange();
        break;
      default:
        TPC_UNREACHABLE("\"{}\" is not a collective", op_name(step_.op));
    }
    return std::move(result_);
  }

 private:
  bool is_own(size_t member) const { return static_cast<int64_t>(member) == step_.index; }
  bool is_over_itself() const { return overlap(step_.input, step_.output); }
  int64_t element_size() const { return byte_size(step_.input.type.dtype); }

  CollectiveCall& add(CollectiveCallKind kind, int64_t count) {
    CollectiveCall& call = result_.calls.emplace_back();
    call.kind = kind;
    call.count = count;
    return call;
  }

  CallBuffer take_workspace(int64_t count) {
    // Pieces begin where vectors of any type may.
    constexpr int64_t kElements = 64;
    CallBuffer buffer{Place::kWorkspace, result_.workspace};
    result_.workspace += (count + kElements - 1) / kElements * kElements;
    return buffer;
  }

  void copy(CallBuffer from, const Region& from_region, CallBuffer to, const Region& to_region) {
    int64_t count = intersection(from_region, to_region).num_elements();
    if (count == 0) return;
    CollectiveCall& call = add(CollectiveCallKind::kCopy, count);
    call.from = from;
    call.to = to;
    call.from_region = from_region;
    call.to_region = to_region;
  }

  void all_reduce() {
    int64_t count = step_.input.region.num_elements();
    CallBuffer from{Place::kInput, 0};
    if (is_over_itself() && step_.input.data != step_.output.data) {
      from = take_workspace(count);
      copy({Place::kInput, 0}, step_.input.region, from, step_.input.region);
    }
    CollectiveCall& call = add(CollectiveCallKind::kAllReduce, count);
    call.from = from;
    call.to = {Place::kOutput, 0};
    auto members = static_cast<int64_t>(size_);
    int64_t own = balanced_block(count, 1, members, step_.index).size();
    result_.received = (members - 1) * own + count - own;
  }

  /// All pieces equal, one after the other in `whole`, in the order of the group.
  bool is_flat(const std::vector<Region>& pieces, const Region& whole) const {
    int64_t count = pieces[0].num_elements();
    for (size_t member = 0; member < size_; ++member) {
      if (pieces[member].num_elements() != count) return false;
      if (contiguous_offset(pieces[member], whole) != static_cast<int64_t>(member) * count) return false;
    }
    return count * static_cast<int64_t>(size_) == whole.num_elements();
  }

  bool gather_in_one() {
    if (!is_flat(step_.input_regions, step_.output.region)) return false;
    int64_t count = step_.input.region.num_elements();
    CallBuffer from{Place::kInput, 0};
    // The library gathers in place only where the own piece lies already.
    bool is_in_place =
        step_.input.begin() == step_.output.begin() + static_cast<uintptr_t>(step_.index * count * element_size());
    if (is_over_itself() && !is_in_place) {
      from = take_workspace(count);
      copy({Place::kInput, 0}, step_.input.region, from, step_.input.region);
    }
    CollectiveCall& call = add(CollectiveCallKind::kAllGather, count);
    call.from = from;
    call.to = {Place::kOutput, 0};
    result_.received = count * (static_cast<int64_t>(size_) - 1);
    return true;
  }

  bool scatter_in_one() {
    if (!is_flat(step_.output_regions, step_.input.region)) return false;
    int64_t count = step_.output.region.num_elements();
    bool is_in_place =
        step_.output.begin() == step_.input.begin() + static_cast<uintptr_t>(step_.index * count * element_size());
    CallBuffer to{Place::kOutput, 0};
    if (is_over_itself() && !is_in_place) to = take_workspace(count);
    CollectiveCall& call = add(CollectiveCallKind::kReduceScatter, count);
    call.from = {Place::kInput, 0};
    call.to = to;
    if (to.place == Place::kWorkspace) copy(to, step_.output.region, {Place::kOutput, 0}, step_.output.region);
    result_.received = count * (static_cast<int64_t>(size_) - 1);
    return true;
  }

  /// The dense tensor of `part`: within the input if it lies together there, else packed.
  CallBuffer packed_input(const Region& part) {
    int64_t offset = contiguous_offset(part, step_.input.region);
    if (offset >= 0) return {Place::kInput, offset};
    CallBuffer packed = take_workspace(part.num_elements());
    copy({Place::kInput, 0}, step_.input.region, packed, part);
    return packed;
  }

  /// Every member sends each other one what that holds afterwards.
  void exchange() {
    struct Piece {
      size_t member;
      Region region;
      CallBuffer buffer;
    };
    std::vector<Piece> sent, received;
    for (size_t member = 0; member < size_; ++member) {
      if (is_own(member)) continue;
      Region out = intersection(step_.input.region, step_.output_regions[member]);
      if (out.num_elements() > 0) sent.push_back({member, out, packed_input(out)});
    }
    for (size_t member = 0; member < size_; ++member) {
      if (is_own(member)) continue;
      Region in = intersection(step_.input_regions[member], step_.output.region);
      if (in.num_elements() == 0) continue;
      int64_t offset = contiguous_offset(in, step_.output.region);
      bool is_direct = offset >= 0 && !is_over_itself();
      CallBuffer buffer = is_direct ? CallBuffer{Place::kOutput, offset} : take_workspace(in.num_elements());
      received.push_back({member, in, buffer});
      result_.received += in.num_elements();
    }
    // The own piece is moved before others are unpacked over the input.
    Region own = intersection(step_.input.region, step_.output.region);
    CallBuffer kept;
    if (is_over_itself() && own.num_elements() > 0) {
      kept = take_workspace(own.num_elements());
      copy({Place::kInput, 0}, step_.input.region, kept, own);
    }
    if (!sent.empty() || !received.empty()) {
      add(CollectiveCallKind::kGroupStart, 0);
      for (const Piece& piece : sent) {
        CollectiveCall& call = add(CollectiveCallKind::kSend, piece.region.num_elements());
        call.from = piece.buffer;
        call.peer = static_cast<int64_t>(piece.member);
      }
      for (const Piece& piece : received) {
        CollectiveCall& call = add(CollectiveCallKind::kReceive, piece.region.num_elements());
        call.to = piece.buffer;
        call.peer = static_cast<int64_t>(piece.member);
      }
      add(CollectiveCallKind::kGroupEnd, 0);
    }
    if (is_over_itself()) {
      copy(kept, own, {Place::kOutput, 0}, step_.output.region);
    } else {
      copy({Place::kInput, 0}, step_.input.region, {Place::kOutput, 0}, step_.output.region);
    }
    for (const Piece& piece : received) {
      if (piece.buffer.place == Place::kOutput) continue;
      copy(piece.buffer, piece.region, {Place::kOutput, 0}, step_.output.region);
    }
  }

  /// Every member sends each other one that one's piece of its sum, and adds what it gets.
  void reduce_pieces() {
    const Region& own = step_.output.region;
    int64_t count = own.num_elements();
    struct Piece {
      size_t member;
      int64_t count;
      CallBuffer buffer;
    };
    std::vector<Piece> sent;
    for (size_t member = 0; member < size_; ++member) {
      if (is_own(member)) continue;
      const Region& part = step_.output_regions[member];
      if (part.num_elements() > 0) sent.push_back({member, part.num_elements(), packed_input(part)});
    }
    CallBuffer pieces = take_workspace(count * static_cast<int64_t>(size_));
    auto piece_of = [&](size_t member) {
      return CallBuffer{Place::kWorkspace, pieces.offset + static_cast<int64_t>(member) * count};
    };
    copy({Place::kInput, 0}, step_.input.region, piece_of(static_cast<size_t>(step_.index)), own);
    if (!sent.empty() || count > 0) {
      add(CollectiveCallKind::kGroupStart, 0);
      for (const Piece& piece : sent) {
        CollectiveCall& call = add(CollectiveCallKind::kSend, piece.count);
        call.from = piece.buffer;
        call.peer = static_cast<int64_t>(piece.member);
      }
      for (size_t member = 0; member < size_ && count > 0; ++member) {
        if (is_own(member)) continue;
        CollectiveCall& call = add(CollectiveCallKind::kReceive, count);
        call.to = piece_of(member);
        call.peer = static_cast<int64_t>(member);
        result_.received += count;
      }
      add(CollectiveCallKind::kGroupEnd, 0);
    }
    if (count == 0) return;
    CollectiveCall& call = add(CollectiveCallKind::kReduce, count);
    call.from = pieces;
    call.to = {Place::kOutput, 0};
    call.num_pieces = static_cast<int64_t>(size_);
  }

  const CollectiveStep& step_;
  size_t size_;
  CollectiveCalls result_;
};

}  // namespace

std::string_view to_string(CollectiveCallKind kind) {
  switch (kind) {
    case CollectiveCallKind::kAllReduce:
      return "all_reduce";
    case CollectiveCallKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveCallKind::kAllGather:
      return "all_gather";
    case CollectiveCallKind::kSend:
      return "send";
    case CollectiveCallKind::kReceive:
      return "receive";
    case CollectiveCallKind::kGroupStart:
      return "group_start";
    case CollectiveCallKind::kGroupEnd:
      return "group_end";
    case CollectiveCallKind::kCopy:
      return "copy";
    case CollectiveCallKind::kReduce:
      return "reduce";
  }
  TPC_UNREACHABLE("call {}", static_cast<int>(kind));
}

CollectiveCalls collective_calls(const CollectiveStep& step) { return Builder(step).run(); }

}  // namespace tpc
