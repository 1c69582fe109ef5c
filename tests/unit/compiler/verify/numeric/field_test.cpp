#include "compiler/verify/numeric/field.h"

#include <doctest/doctest.h>

#include <set>

namespace tpc::verify {

TEST_CASE("arithmetic modulo 2^61 - 1") {
  CHECK_EQ(kPrime, 2305843009213693951U);
  CHECK_EQ(inverse(2), 1152921504606846976U);
  CHECK_EQ(inverse(3), 1537228672809129301U);
  CHECK_EQ(inverse(7), 1976436865040309101U);
  CHECK_EQ(inverse(0), 0);
  CHECK_EQ(multiply(kPrime - 1, inverse(2)), 1152921504606846975U);
  CHECK_EQ(multiply(Element{1} << 60, 4), 2);
  CHECK_EQ(add(kPrime - 1, 1), 0);
  CHECK_EQ(subtract(0, 1), kPrime - 1);
  CHECK_EQ(reduced(~Wide{0}), (Element{1} << 6) - 1);
  for (Element a : {Element{1}, Element{12345}, kPrime - 1, Element{1} << 60}) CHECK_EQ(multiply(a, inverse(a)), 1);
}

TEST_CASE("sums of products are reduced before they overflow") {
  ProductSum sum;
  Element expected = 0;
  for (int i = 0; i < 1000; ++i) {
    sum.add(kPrime - 1, kPrime - 1 - static_cast<Element>(i));
    expected = add(expected, multiply(kPrime - 1, kPrime - 1 - static_cast<Element>(i)));
  }
  CHECK_EQ(sum.value(), expected);
}

TEST_CASE("integers are elements, negative ones too") {
  for (int64_t value : {int64_t{0}, int64_t{7}, int64_t{-1}, int64_t{-100}})
    CHECK_EQ(as_integer(of_integer(value)), value);
}

TEST_CASE("other bits of an attribute are another element") {
  std::set<Element> elements;
  for (double value : {0.0, -0.0, 1.0, 1.0000000000000002, -1.0, 1e-8}) elements.insert(element_of(value));
  CHECK_EQ(elements.size(), 6);
  CHECK_NE(element_of("gelu"), element_of("silu"));
}

}  // namespace tpc::verify
