/// What one group of NCCL calls issues on one communicator: one piece of work of its stream, in which sends and
/// receives go on together and collectives one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/failures.h"
#include "tests/fake_cuda/nccl_operation.h"
#include "tests/fake_cuda/work.h"

namespace fake_cuda {

/// An operation on its way. advance() as in Work; the batch has its turn.
class RunningOperation {
 public:
  virtual ~RunningOperation() = default;
  virtual Progress advance() = 0;
  virtual std::string what() const = 0;
};

std::unique_ptr<RunningOperation> start_collective(ncclComm& communicator, const Operation& operation);
std::unique_ptr<RunningOperation> start_send(ncclComm& communicator, const Operation& operation);
std::unique_ptr<RunningOperation> start_receive(ncclComm& communicator, const Operation& operation);

/// Takes the batch's turn when it makes the work. `never_begins`: a planted failure.
MakeWork batch_work(ncclComm& communicator, std::vector<Operation> operations, bool never_begins);

}  // namespace fake_cuda
