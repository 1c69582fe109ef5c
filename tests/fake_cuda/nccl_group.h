/// ncclGroupStart and ncclGroupEnd of this thread: operations and new communicators begin when the outermost group
/// ends.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>

#include "tests/fake_cuda/nccl_operation.h"

namespace fake_cuda {

/// Outside of a group it ends at once. `never_begins`: a planted failure.
ncclResult_t add_to_group(ncclComm& communicator, cudaStream_t stream, const Operation& operation, bool never_begins);
/// A communicator that was begun; `call` made it.
ncclResult_t add_to_group(ncclComm& communicator, const char* call);
/// The group returns this error when it ends.
ncclResult_t fail_group(ncclResult_t result);

}  // namespace fake_cuda
