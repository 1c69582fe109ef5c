/// `tprun --check`: real training steps of a plan and of its model on one rank, on the same data, compared.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/check/check_report.h"
#include "runtime/check/observed_run.h"
#include "runtime/data.h"

namespace tpc {

/// Told of every plan step that rank 0 has done: the training step, "the model" or "the plan", and how many steps of
/// how many.
using CheckProgress = std::function<void(uint64_t step, std::string_view run, size_t done, size_t of)>;

struct CheckOptions {
  uint64_t num_steps = 1;
  /// Of the plan, for messages.
  std::string file;
  CheckProgress progress;
};

/// Runs `num_steps` training steps of `plan`, and of `one_rank` twice (see ModelStep), and compares all tensors. Before
/// every step both plans get the weights and states of the model's run, so that each is compared afresh. Returns the
/// summary. Throws UserError with the place of the first difference, see difference_report.
std::string checked_run(const Plan& plan, const Plan& one_rank, DataSource& data, const MakeRun& make_run,
                        const CheckOptions& options);

/// Throws DeviceError when both plans and the tensors of the model take more memory than the machine has, with elements
/// of `element` bytes.
void require_check_memory(const Plan& plan, const Plan& one_rank, int64_t element);

}  // namespace tpc
