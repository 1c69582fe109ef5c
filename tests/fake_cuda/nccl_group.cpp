#include "tests/fake_cuda/nccl_group.h"

#include <algorithm>
#include <vector>

#include "tests/fake_cuda/communicator.h"
#include "tests/fake_cuda/nccl_batch.h"
#include "tests/fake_cuda/report.h"
#include "tests/fake_cuda/scheduler.h"

namespace fake_cuda {
namespace {

struct Part {
  ncclComm* communicator;
  cudaStream_t stream;
  std::vector<Operation> operations;
  bool never_begins;
};

struct Making {
  ncclComm* communicator;
  const char* call;
};

struct Group {
  int depth = 0;
  std::vector<Part> parts;  // in the order of their first operation
  std::vector<Making> makings;
  ncclResult_t error = ncclSuccess;
};

thread_local Group group;

ncclResult_t end_group() {
  Group ended = std::move(group);
  group = Group{};
  if (ended.error != ncclSuccess) return ended.error;
  ncclResult_t result = ncclSuccess;
  // All are begun before one is waited for: they may be ranks of one communicator.
  for (const Making& making : ended.makings) static_cast<void>(making.communicator->advance_making());
  for (const Making& making : ended.makings) {
    ncclResult_t made = making.communicator->blocking ? finish_making(making.call, *making.communicator)
                                                      : making.communicator->advance_making();
    if (made != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = made;
  }
  for (Part& part : ended.parts) {
    ncclComm& communicator = *part.communicator;
    communicator.defer([&communicator, part] {
      issue(call_name(part.operations[0].kind), part.stream,
            batch_work(communicator, part.operations, part.never_begins));
    });
    std::lock_guard lock(communicator.mutex);
    if (communicator.num_asks_left > 0 && result == ncclSuccess) result = ncclInProgress;
  }
  return result;
}

}  // namespace

ncclResult_t add_to_group(ncclComm& communicator, cudaStream_t stream, const Operation& operation, bool never_begins) {
  auto part = std::find_if(group.parts.begin(), group.parts.end(),
                           [&](const Part& other) { return other.communicator == &communicator; });
  if (part == group.parts.end()) {
    group.parts.push_back({&communicator, stream, {}, false});
    part = std::prev(group.parts.end());
  }
  if (part->stream != stream) die("{}: one communicator, and two streams in one group", call_name(operation.kind));
  part->operations.push_back(operation);
  part->never_begins = part->never_begins || never_begins;
  return group.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t add_to_group(ncclComm& communicator, const char* call) {
  group.makings.push_back({&communicator, call});
  return group.depth > 0 ? ncclSuccess : end_group();
}

ncclResult_t fail_group(ncclResult_t result) {
  if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
  return result;
}

}  // namespace fake_cuda

extern "C" {

ncclResult_t ncclGroupStart() {
  ++fake_cuda::group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (fake_cuda::group.depth == 0) fake_cuda::die("ncclGroupEnd without ncclGroupStart");
  if (--fake_cuda::group.depth > 0) return ncclSuccess;
  return fake_cuda::end_group();
}

}  // extern "C"
