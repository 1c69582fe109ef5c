#include "tests/fake_cuda/nccl_batch.h"

#include "tests/fake_cuda/report.h"

namespace fake_cuda {
namespace {

class Batch {
 public:
  Batch(ncclComm& communicator, const std::vector<Operation>& operations, bool never_begins)
      : communicator_(communicator), never_begins_(never_begins), turn_(communicator.num_issued++) {
    for (const Operation& operation : operations) operations_.push_back({operation, nullptr, false});
  }

  Progress advance() {
    if (communicator_.aborted) return Progress::kDone;
    if (communicator_.num_done != turn_) return Progress::kBlocked;
    if (never_begins_) return Progress::kRemote;
    Progress outcome = Progress::kRemote;
    size_t num_left = 0;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].done) continue;
      ++num_left;
      if (!may_run(i)) continue;
      Progress progress = advance_one(operations_[i]);
      if (progress == Progress::kFailed) return progress;
      if (progress == Progress::kDone) operations_[i].done = true, --num_left;
      if (progress != Progress::kRemote) outcome = Progress::kMoved;
    }
    if (num_left > 0) return outcome;
    ++communicator_.num_done;
    return Progress::kDone;
  }

  std::string what() const {
    if (communicator_.num_done != turn_) return "waits for earlier work of its communicator";
    if (never_begins_) return "never begins: it was planted so";
    if (communicator_.failure() != ncclSuccess) return communicator_.failure_sentence();
    for (const Entry& entry : operations_) {
      if (!entry.done && entry.running) return entry.running->what();
    }
    return "";
  }

 private:
  struct Entry {
    Operation operation;
    std::unique_ptr<RunningOperation> running;
    bool done;
  };

  // Collectives, the sends to one rank and the receives from one rank keep their order.
  bool may_run(size_t index) const {
    const Operation& own = operations_[index].operation;
    for (size_t i = 0; i < index; ++i) {
      const Operation& before = operations_[i].operation;
      bool both_collective = is_collective(before.kind) && is_collective(own.kind);
      if (!operations_[i].done && (both_collective || (before.kind == own.kind && before.root == own.root)))
        return false;
    }
    return true;
  }

  Progress advance_one(Entry& entry) {
    if (!entry.running) {
      switch (entry.operation.kind) {
        case OperationKind::kSend:
          entry.running = start_send(communicator_, entry.operation);
          break;
        case OperationKind::kReceive:
          entry.running = start_receive(communicator_, entry.operation);
          break;
        default:
          entry.running = start_collective(communicator_, entry.operation);
      }
    }
    return entry.running->advance();
  }

  ncclComm& communicator_;
  bool never_begins_;
  uint64_t turn_;
  std::vector<Entry> operations_;
};

std::string batch_name(const ncclComm& communicator, const std::vector<Operation>& operations) {
  std::string name = to_string(announce(operations[0], 0));
  if (operations.size() > 1) name += fmt::format(" and {} more", operations.size() - 1);
  return fmt::format("{} on communicator {}", name, communicator.number);
}

}  // namespace

MakeWork batch_work(ncclComm& communicator, std::vector<Operation> operations, bool never_begins) {
  return [&communicator, operations = std::move(operations), never_begins, in_graph = communicator.captured] {
    auto batch = std::make_shared<Batch>(communicator, operations, never_begins);
    return Work{batch_name(communicator, operations), [batch] { return batch->advance(); },
                [batch] { return batch->what(); }};
  };
}

}  // namespace fake_cuda
