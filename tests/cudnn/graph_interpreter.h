/// cuDNN's descriptors as data, and what a graph of operations means: computed on the host, an operation at a time.
#pragma once

#include "runtime/cuda/cudnn/operation_graph.h"

namespace tpc::testing {

/// Records descriptors instead of compiling them; nothing of cuDNN is loaded. Has no handles.
const cuda::cudnn::Library& recording_library();

/// Runs a graph of that library on the host memory that its variant pack names: in double, rounded to the types that
/// tensors have.
void interpret(const cuda::cudnn::OperationGraph& graph, const cuda::cudnn::Descriptor& variant_pack);

}  // namespace tpc::testing
