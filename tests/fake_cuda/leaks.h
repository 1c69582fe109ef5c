/// What is left when a process ends.
#pragma once

namespace fake_cuda {

/// From now on the end of this process checks for leaks, if it ends well.
void watch_end_of_process();

}  // namespace fake_cuda
