#include "compiler/ops/optimizer_operands.h"

#include <fmt/format.h>

#include "compiler/ops/type_checks.h"

namespace tpc {

void check_optimizer_operands(const OpQuery& query, const std::vector<std::string_view>& names) {
  bool has_coefficient = query.attributes.get_bool("has_coefficient");
  size_t wanted = names.size() + (has_coefficient ? 1 : 0);
  if (query.operands.size() != wanted) {
    throw OpTypeError(fmt::format("wanted {} operands{}, found {}", wanted,
                                  has_coefficient ? ", the last one a coefficient" : "", query.operands.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    require_f32(query.operands[i], names[i]);
    require_shape(query.operands[i], query.operands[0].shape, names[i], "the shape of the parameter");
  }
  if (has_coefficient) {
    require_f32(query.operands.back(), "coefficient");
    require_shape(query.operands.back(), {}, "coefficient", "the shape of a scalar");
  }
}

void require_decay_rate(const Attributes& attributes, std::string_view name) {
  double value = attributes.get_double(name);
  if (0 <= value && value < 1) return;
  throw OpTypeError(fmt::format("\"{}\" must be at least 0 and below 1, found {}", name, value));
}

}  // namespace tpc
