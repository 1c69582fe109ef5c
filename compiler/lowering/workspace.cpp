#include "compiler/lowering/workspace.h"

namespace tpc {

int64_t packed_matrix_bytes(const BlasMatrix& matrix) {
  if (!matrix.copy) return 0;
  constexpr int64_t kLine = 256;
  int64_t bytes = matrix.copy->loop.num_elements() * byte_size(matrix.dtype);
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace tpc
