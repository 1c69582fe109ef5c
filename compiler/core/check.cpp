#include "compiler/core/check.h"

namespace tpc {

void throw_internal_error(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check `{}` failed: {}", file, line, condition, message));
}

}  // namespace tpc
