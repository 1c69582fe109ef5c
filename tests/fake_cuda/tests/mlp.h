/// A small program as an executor would be: a two-layer perceptron split by columns, then by rows, trained on several
/// ranks with collectives on a stream of their own. It uses the three libraries only, and can be made wrong.
#pragma once

#include <nccl.h>

#include <vector>

namespace fake_cuda::testing {

enum class Fault {
  kNone,
  kNoWaitForReduce,   ///< the loss does not wait for the sum over the ranks
  kNoWaitForProduct,  ///< the sum does not wait for the product
  kNoReduce,          ///< the product is used as it is
  kPinnedReused,      ///< the batch of the next step is written while that of this one is copied
  kLossReadEarly,     ///< the loss is read without a wait
  kHostReads,         ///< the host reads device memory
  kEagerKernel,       ///< a kernel runs at its call
};

struct MlpOptions {
  int num_ranks = 1;
  Fault fault = Fault::kNone;
  bool graph = false;  ///< steps after the first are replays of one captured step
  int steps = 5;
};

/// The losses of every step on rank `rank`, whose device is `device`.
std::vector<float> train_mlp(const MlpOptions& options, const ncclUniqueId& id, int rank, int device);
/// All ranks, as threads of this process; the losses of each.
std::vector<std::vector<float>> train_mlp_on_threads(const MlpOptions& options);
/// In double, without devices.
std::vector<double> train_mlp_reference(int steps);
/// The largest difference, relative to the reference; infinity for a NaN.
double mlp_error(const std::vector<float>& losses);

}  // namespace fake_cuda::testing
