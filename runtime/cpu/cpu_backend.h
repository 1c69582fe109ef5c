/// The backend `cpu`: f32 kernels for one rank. Contractions are oneDNN's, everything else is vectorised here.
#pragma once

#include <memory>

#include "runtime/backend.h"

namespace tpc {

/// Kernels share their loops among omp_get_max_threads() threads as counted in prepare(); a run uses no more than that.
/// Results do not depend on that number, except the rounding of oneDNN's contractions.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace tpc
