#include "compiler/ir/op_kind.h"

#include <array>

#include "compiler/core/check.h"

namespace tpc {
namespace {

struct OpName {
  std::array<char, 32> letters{};
  size_t length = 0;

  constexpr void append(char c) { letters[length++] = c; }
  constexpr std::string_view view() const { return {letters.data(), length}; }
};

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// A word starts at a capital that a lower-case letter follows, so that "AdamW" is one word.
constexpr OpName snake_case(std::string_view enumerator) {
  OpName name;
  for (size_t i = 0; i < enumerator.size(); ++i) {
    bool starts_word = i > 0 && i + 1 < enumerator.size() && is_upper(enumerator[i]) && !is_upper(enumerator[i + 1]);
    if (starts_word) name.append('_');
    name.append(is_upper(enumerator[i]) ? static_cast<char>(enumerator[i] - 'A' + 'a') : enumerator[i]);
  }
  return name;
}

constexpr std::array kOpNames = {
#define OP(enumerator, row) snake_case(#enumerator),
#include "compiler/ir/op_list.def"
#undef OP
};

static_assert(snake_case("AdamW").view() == "adamw");
static_assert(snake_case("SoftmaxStatsGrad").view() == "softmax_stats_grad");

}  // namespace

std::string_view op_name(OpKind kind) {
  size_t index = static_cast<size_t>(kind);
  TPC_CHECK(index < kOpNames.size(), "op kind {} of {}", index, kOpNames.size());
  return kOpNames[index].view();
}

std::optional<OpKind> parse_op_kind(std::string_view name) {
  for (size_t i = 0; i < kOpNames.size(); ++i) {
    if (kOpNames[i].view() == name) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  names.reserve(kOpNames.size());
  for (const OpName& name : kOpNames) names.emplace_back(name.view());
  return names;
}

}  // namespace tpc
