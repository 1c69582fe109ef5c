#include "compiler/plan/text_table.h"

#include <doctest/doctest.h>

namespace tpc {

TEST_CASE("columns are as wide as their widest cell, counted in characters") {
  TextTable table("lrl");
  table.add_row({"name", "volume", "why"});
  table.add_row({"a", "2Φ", ""});
  table.add_line("a line that is longer than every column together");
  table.add_row({"longer name", "12Φ"});
  CHECK(table.text(1) ==
        " name         volume  why\n"
        " a                2Φ\n"
        " a line that is longer than every column together\n"
        " longer name     12Φ\n");
}

TEST_CASE("numbers as people read them") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-1234) == "-1,234");
  CHECK(bytes_text(12) == "12 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(999.9) == "1 kB");
  CHECK(bytes_text(65536) == "65.5 kB");
  CHECK(bytes_text(16978591744.0) == "17 GB");
  CHECK(count_text(426624) == "427 k");
  CHECK(phi_text(2) == "2Φ");
  CHECK(phi_text(0) == "0");
  CHECK(phi_text(1e-9) == "~0");
  CHECK(phi_text(1.0 / 32) == "0.03125Φ");
}

}  // namespace tpc
