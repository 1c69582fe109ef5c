#include "compiler/plan/repeated_blocks.h"

#include <doctest/doctest.h>

namespace tpc {

TEST_CASE("the block of a layer is its last numbered part, the layer's own name apart") {
  CHECK(block_of("embed") == "embed");
  CHECK(block_of("block3.fc1") == "block3");
  CHECK(block_of("stage1.block22.attn.q") == "stage1.block22");
  CHECK(block_of("head.fc1") == "head.fc1");
  CHECK(name_in_block("block3.fc1") == "fc1");
  CHECK(name_in_block("block3.attn.q") == "attn.q");
  CHECK(name_in_block("fc1") == "fc1");
}

TEST_CASE("names are told relative to their block") {
  CHECK(relative_to_block("\"block3.fc1\" needs it", "block3") == "\"fc1\" needs it");
  CHECK(relative_to_block("block2.x and block4.ln1", "block3") == "block{i-1}.x and block{i+1}.ln1");
  CHECK(relative_to_block("myblock3.x block33.x block3", "block3") == "myblock3.x block{i+30}.x block3");
  CHECK(relative_to_block("embed", "embed") == "embed");
}

TEST_CASE("neighbours with equal content and consecutive numbers make a run") {
  std::vector<std::string> names{"embed", "block0", "block1", "block2", "block3", "block5", "head"};
  std::vector<std::string> contents{"a", "a", "b", "b", "b", "b", "b"};
  std::vector<BlockRun> runs = find_runs(names, contents);
  REQUIRE(runs.size() == 5);
  CHECK(run_name(names, runs[1]) == "block0");
  CHECK(run_name(names, runs[2]) == "block1..3 (x3)");
  CHECK(run_name(names, runs[3]) == "block5");
}

TEST_CASE("a run may count down, as in a backward pass") {
  std::vector<std::string> names{"block2", "block1", "block0"};
  std::vector<BlockRun> runs = find_runs(names, {"a", "a", "a"});
  REQUIRE(runs.size() == 1);
  CHECK(run_name(names, runs[0]) == "block0..2 (x3)");
}

}  // namespace tpc
