#include "compiler/ir/op_kind.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

TEST_CASE("op_kind: names are the ones of the op table") {
  std::vector<std::string> names = op_names();
  REQUIRE(names.size() == all_ops().size());
  for (size_t i = 0; i < names.size(); ++i) {
    OpKind kind = static_cast<OpKind>(i);
    CHECK(op_name(kind) == names[i]);
    CHECK(op_name(kind) == op_def(kind).name);
    CHECK(op_def(kind).kind == kind);
    CHECK(parse_op_kind(names[i]) == kind);
    CHECK(find_op(names[i]) == &op_def(kind));
  }
}

TEST_CASE("op_kind: names are unique") {
  std::vector<std::string> names = op_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
}

TEST_CASE("op_kind: other words are no ops") {
  for (std::string word : {"", "Add", "adam_w", "all reduce", "addd"}) {
    CAPTURE(word);
    CHECK(parse_op_kind(word) == std::nullopt);
  }
}

}  // namespace
}  // namespace tpc
