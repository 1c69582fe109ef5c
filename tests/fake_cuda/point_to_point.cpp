// Sends and receives. Neither is done before the other has come, as for large messages of NCCL.
#include <algorithm>
#include <cstring>

#include "tests/fake_cuda/nccl_batch.h"
#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

// What both ends have in common: they start, agree, and move a page at a time.
class Transfer : public RunningOperation {
 public:
  Transfer(ncclComm& communicator, const Operation& operation, int from, int to)
      : communicator_(communicator),
        operation_(operation),
        from_(from),
        to_(to),
        channel_(communicator.place->channel(from, to)),
        page_(communicator.place->channel_page(from, to)),
        bytes_(operation.count * size_of(operation.type)) {}

  std::string what() const override {
    bool sends = communicator_.rank == from_ && operation_.kind == OperationKind::kSend;
    int peer = sends ? to_ : from_;
    return fmt::format("{} {} waits{}", sends ? "a send to rank" : "a receive from rank", peer,
                       communicator_.place->is_dead(peer) ? " (its process has ended)" : "");
  }

 protected:
  bool agree(const Announced& sent, const Announced& received) {
    if (sent.count == received.count && sent.type == received.type) return true;
    communicator_.fail(ncclInvalidUsage,
                       fmt::format("rank {} sends {} {} to rank {}, which receives {} {}", from_, sent.count,
                                   type_name(static_cast<ncclDataType_t>(sent.type)), to_, received.count,
                                   type_name(static_cast<ncclDataType_t>(received.type))));
    return false;
  }

  // Of nothing one part is sent, too.
  uint64_t part() const { return std::min(bytes_ - at_, MeetingPlace::kSent); }
  bool end_part(uint64_t bytes) {
    at_ += bytes;
    return at_ == bytes_;
  }

  ncclComm& communicator_;
  Operation operation_;
  int from_;
  int to_;
  MeetingPlace::Channel& channel_;
  std::byte* page_;
  uint64_t bytes_;
  uint64_t at_ = 0;      ///< bytes done
  uint64_t number_ = 0;  ///< of the message, in this direction
};

class Send final : public Transfer {
 public:
  Send(ncclComm& communicator, const Operation& operation)
      : Transfer(communicator, operation, communicator.rank, operation.root) {
    number_ = communicator.num_sent[static_cast<size_t>(to_)]++;
    channel_.sent = announce(operation, 0);
    channel_.send_started.store(number_ + 1, std::memory_order_release);
  }

  Progress advance() override {
    if (channel_.receive_started.load(std::memory_order_acquire) <= number_) return Progress::kRemote;
    if (at_ == 0 && !waits_ && !agree(channel_.sent, channel_.received)) return Progress::kFailed;
    if (waits_) {
      if (channel_.parts_received.load(std::memory_order_acquire) != channel_.parts_sent) return Progress::kRemote;
      waits_ = false;
      if (end_part(part())) return Progress::kDone;
    }
    if (part() > 0) std::memcpy(page_, operation_.in + at_, part());
    waits_ = true;
    channel_.parts_sent.fetch_add(1, std::memory_order_release);
    return Progress::kMoved;
  }

 private:
  bool waits_ = false;  ///< for the part to be taken
};

class Receive final : public Transfer {
 public:
  Receive(ncclComm& communicator, const Operation& operation)
      : Transfer(communicator, operation, operation.root, communicator.rank) {
    number_ = communicator.num_received[static_cast<size_t>(from_)]++;
    channel_.received = announce(operation, 0);
    channel_.receive_started.store(number_ + 1, std::memory_order_release);
  }

  Progress advance() override {
    if (channel_.send_started.load(std::memory_order_acquire) <= number_) return Progress::kRemote;
    if (at_ == 0 && !agree(channel_.sent, channel_.received)) return Progress::kFailed;
    uint64_t taken = channel_.parts_received;
    if (channel_.parts_sent.load(std::memory_order_acquire) == taken) return Progress::kRemote;
    uint64_t bytes = part();
    if (bytes > 0) std::memcpy(operation_.out + at_, page_, bytes);
    bool done = end_part(bytes);
    channel_.parts_received.store(taken + 1, std::memory_order_release);
    return done ? Progress::kDone : Progress::kMoved;
  }
};

}  // namespace

std::unique_ptr<RunningOperation> start_send(ncclComm& communicator, const Operation& operation) {
  return std::make_unique<Send>(communicator, operation);
}

std::unique_ptr<RunningOperation> start_receive(ncclComm& communicator, const Operation& operation) {
  return std::make_unique<Receive>(communicator, operation);
}

}  // namespace fake_cuda
