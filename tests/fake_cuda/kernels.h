/// Launches of emulated kernels.
#pragma once

namespace fake_cuda {

/// From now on they go to the queue of their stream instead of running at once.
void queue_kernels();

}  // namespace fake_cuda
