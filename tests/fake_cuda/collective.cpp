// Collectives: the members show each other a page of their inputs at a time, and every member makes its own part of the
// result from all of them, in the order of the ranks.
#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/nccl_batch.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

bool agree(const Announced& a, const Announced& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root && a.count == b.count;
}

class Collective final : public RunningOperation {
 public:
  Collective(ncclComm& communicator, const Operation& operation)
      : communicator_(communicator),
        place_(*communicator.place),
        operation_(operation),
        announced_(announce(operation, communicator.num_collectives++)),
        rank_(communicator.rank),
        num_ranks_(static_cast<uint64_t>(communicator.num_ranks)),
        element_(size_of(operation.type)) {
    bool shows_all = operation.kind == OperationKind::kReduceScatter || operation.kind == OperationKind::kAllToAll;
    page_elements_ = MeetingPlace::kShown / element_ / (shows_all ? num_ranks_ : 1);
  }

  Progress advance() override {
    Progress progress = Progress::kRemote;
    while (true) {
      uint64_t count = std::min(page_elements_, operation_.count - at_);
      uint64_t round = communicator_.round;
      if (!shown_) {
        if (!place_.may_show(round)) return progress;
        fill_page(place_.own_page(rank_, round), count);
        place_.show(rank_, round, announced_);
        shown_ = true;
        progress = Progress::kMoved;
      }
      if (!place_.all_shown(round)) return progress;
      if (!check_agreement(round)) return Progress::kFailed;
      take_pages(round, count);
      place_.seen(rank_, round);
      ++communicator_.round;
      shown_ = false;
      progress = Progress::kMoved;
      at_ += count;
      // Of nothing there is one round, too: who calls it must agree.
      if (at_ == operation_.count) return Progress::kDone;
    }
  }

  std::string what() const override {
    std::string text = "waits for ranks";
    for (int rank : place_.not_shown(communicator_.round)) {
      text += fmt::format(" {}{}", rank, place_.is_dead(rank) ? " (its process has ended)" : "");
    }
    return shown_ ? text : "waits for others to read what it has shown";
  }

 private:
  void fill_page(std::byte* page, uint64_t count) const {
    uint64_t bytes = count * element_;
    switch (operation_.kind) {
      case OperationKind::kBroadcast:
        if (rank_ == operation_.root) copy(page, operation_.in + at_ * element_, bytes);
        return;
      case OperationKind::kReduceScatter:
      case OperationKind::kAllToAll:
        for (uint64_t part = 0; part < num_ranks_; ++part) {
          copy(page + part * bytes, operation_.in + (part * operation_.count + at_) * element_, bytes);
        }
        return;
      default:
        copy(page, operation_.in + at_ * element_, bytes);
    }
  }

  bool check_agreement(uint64_t round) const {
    for (int other = 0; other < communicator_.num_ranks; ++other) {
      const Announced& theirs = place_.announced(other, round);
      if (agree(announced_, theirs)) continue;
      int first = std::min(other, rank_);
      communicator_.fail(ncclInvalidUsage,
                         fmt::format("the ranks of a communicator call different collectives: rank {} {}, rank {} {} "
                                     "(number {} of the communicator)",
                                     first, to_string(first == rank_ ? announced_ : theirs), std::max(other, rank_),
                                     to_string(first == rank_ ? theirs : announced_), announced_.batch));
      return false;
    }
    return true;
  }

  void take_pages(uint64_t round, uint64_t count) const {
    uint64_t bytes = count * element_;
    std::byte* out = operation_.out + at_ * element_;
    std::vector<const std::byte*> pages;
    for (int other = 0; other < communicator_.num_ranks; ++other) pages.push_back(place_.page(other, round));
    switch (operation_.kind) {
      case OperationKind::kReduce:
        if (rank_ != operation_.root) return;
        [[fallthrough]];
      case OperationKind::kAllReduce:
        reduce(operation_.type, operation_.op, pages.data(), communicator_.num_ranks, out, count);
        return;
      case OperationKind::kReduceScatter:
        for (const std::byte*& page : pages) page += static_cast<uint64_t>(rank_) * bytes;
        reduce(operation_.type, operation_.op, pages.data(), communicator_.num_ranks, out, count);
        return;
      case OperationKind::kBroadcast:
        copy(out, pages[static_cast<size_t>(operation_.root)], bytes);
        return;
      case OperationKind::kAllGather:
        for (uint64_t part = 0; part < num_ranks_; ++part) {
          copy(out + part * operation_.count * element_, pages[part], bytes);
        }
        return;
      case OperationKind::kAllToAll:
        for (uint64_t part = 0; part < num_ranks_; ++part) {
          copy(out + part * operation_.count * element_, pages[part] + static_cast<uint64_t>(rank_) * bytes, bytes);
        }
        return;
      default:
        die("{} is no collective", call_name(operation_.kind));
    }
  }

  static void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  ncclComm& communicator_;
  MeetingPlace& place_;
  Operation operation_;
  Announced announced_;
  int rank_;
  uint64_t num_ranks_;
  uint64_t element_;
  uint64_t page_elements_ = 0;
  uint64_t at_ = 0;  ///< elements done
  bool shown_ = false;
};

}  // namespace

std::unique_ptr<RunningOperation> start_collective(ncclComm& communicator, const Operation& operation) {
  return std::make_unique<Collective>(communicator, operation);
}

}  // namespace fake_cuda
