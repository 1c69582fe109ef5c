/// The GPUs that tests find.
#pragma once

#include <string>

namespace tpc::testing {

/// Why nothing runs on `count` GPUs here, "no NVIDIA driver: ..."; "" where it does.
std::string why_no_gpus(int count = 1);

/// Whether a test that needs `count` GPUs can go on; where not, says "skipped" and why.
bool has_gpus(int count = 1);

}  // namespace tpc::testing
