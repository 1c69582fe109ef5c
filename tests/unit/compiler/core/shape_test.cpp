#include "compiler/core/shape.h"

#include <doctest/doctest.h>

namespace tpc {
namespace {

TEST_CASE("shape: elements and strides") {
  CHECK(num_elements({}) == 1);
  CHECK(num_elements({4, 32, 128}) == 16384);
  CHECK(num_elements({4, 0}) == 0);
  CHECK(row_major_strides({}).empty());
  CHECK(row_major_strides({4, 32, 128}) == Shape{4096, 128, 1});
  CHECK(byte_size(TensorType{DType::kF32, {4, 32, 128}}) == 65536);
}

TEST_CASE("shape: text") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{4, 32, 128}) == "[4, 32, 128]");
  CHECK(to_string(TensorType{DType::kI32, {2}}) == "i32[2]");
  CHECK(to_string(TensorType{}) == "f32[]");
}

TEST_CASE("dtype: every name parses back") {
  for (DType dtype : {DType::kF32, DType::kI32}) CHECK(parse_dtype(to_string(dtype)) == dtype);
  CHECK(parse_dtype("float") == std::nullopt);
}

}  // namespace
}  // namespace tpc
