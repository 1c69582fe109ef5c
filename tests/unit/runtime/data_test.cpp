#include "runtime/data.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/core/diagnostic.h"
#include "tests/unit/runtime/small_plans.h"

namespace tpc {
namespace {

// tokens[2, 8] -> embedding of `rows`; logits of width `width` against targets[2, 8], split over the ranks.
Plan language_plan(int64_t rows, int64_t width) {
  testing::PlanBuilder b(DeviceMesh({{"tp", 2}}));
  TensorSharding r{{Placement::replicate()}};
  int tokens = b.tensor("tokens", {2, 8}, r, TensorRole::kInput, DType::kI32);
  int targets = b.tensor("targets", {2, 8}, r, TensorRole::kInput, DType::kI32);
  int table = b.tensor("table", {rows, 4}, r, TensorRole::kParameter);
  int embedded = b.tensor("embedded", {2, 8, 4}, r);
  int logits = b.tensor("logits", {2, 8, width}, r);
  int maximum = b.tensor("maximum", {2, 8}, r);
  int stats = b.tensor("stats", {2, 2, 8}, r);
  // Uses are found behind a local move, too.
  int sliced = b.tensor("sliced", {2, 8}, {{Placement::shard(0)}}, TensorRole::kOther, DType::kI32);
  b.step(OpKind::kLocalSlice, {tokens}, {sliced}, {{"axes", std::vector<int64_t>{0}}});
  b.step(OpKind::kEmbedding, {sliced, table}, {embedded});
  b.step(OpKind::kSoftmaxStats, {logits, targets, maximum}, {stats});
  return b.plan();
}

class TemporaryFile {
 public:
  TemporaryFile(const std::string& ending, const std::string& bytes)
      : name_((std::filesystem::temp_directory_path() / ("tpc_data_test_" + std::to_string(getpid()) + ending))
                  .string()) {
    std::ofstream(name_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(name_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

std::string error_of(const Plan& plan, const std::string& file) {
  try {
    file_data(plan, file, 0);
  } catch (const UserError& error) {
    CHECK(error.diagnostics()[0].loc.file == file);
    return error.diagnostics()[0].message;
  }
  return "";
}

std::string letters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text.push_back(static_cast<char>(i % 97));
  return text;
}

TEST_CASE("the use of an input is found from the steps that read it") {
  std::vector<InputUse> uses = find_input_uses(language_plan(40, 30));
  REQUIRE(uses.size() == 2);
  CHECK(uses[0].kind == InputUse::Kind::kTokens);
  CHECK(uses[0].vocabulary == 40);
  CHECK(uses[1].kind == InputUse::Kind::kTargets);
  CHECK(uses[1].vocabulary == 30);
  CHECK(tokens_per_batch(language_plan(40, 30)) == 16);
  CHECK(tokens_per_batch(testing::two_layer_plan(1)) == 4);
}

TEST_CASE("a fixed batch stays in the vocabularies, and is the same for seed and name") {
  Plan plan = language_plan(40, 3);
  auto data = fixed_data(plan, 1);
  Batch first = data->batch(0);
  CHECK(data->batch(7).at("tokens").i32 == first.at("tokens").i32);
  CHECK(fixed_data(plan, 1)->batch(0).at("tokens").i32 == first.at("tokens").i32);
  CHECK(fixed_data(plan, 2)->batch(0).at("tokens").i32 != first.at("tokens").i32);
  for (int32_t id : first.at("tokens").i32) CHECK((id >= 0 && id < 40));
  std::set<int32_t> labels;
  for (int32_t id : first.at("targets").i32) labels.insert(id);
  CHECK(labels == std::set<int32_t>{0, 1, 2});
}

TEST_CASE("a text gives windows of bytes with the next byte as target") {
  Plan plan = language_plan(256, 256);
  TemporaryFile file(".txt", letters(500));
  auto data = file_data(plan, file.name(), 3);
  std::set<int32_t> starts;
  for (uint64_t step = 0; step < 50; ++step) {
    Batch batch = data->batch(step);
    for (size_t row = 0; row < 2; ++row) {
      starts.insert(batch.at("tokens").i32[row * 8]);
      for (size_t i = 0; i < 8; ++i) {
        int32_t token = batch.at("tokens").i32[row * 8 + i];
        CHECK(batch.at("targets").i32[row * 8 + i] == (token + 1) % 97);
        if (i > 0) CHECK(token == (batch.at("tokens").i32[row * 8 + i - 1] + 1) % 97);
      }
    }
  }
  CHECK(starts.size() > 20);
  // A pure function of seed and step.
  Batch batch = data->batch(9);
  CHECK(file_data(plan, file.name(), 3)->batch(9).at("tokens").i32 == batch.at("tokens").i32);
  CHECK(file_data(plan, file.name(), 4)->batch(9).at("tokens").i32 != batch.at("tokens").i32);
}

TEST_CASE("the shortest possible file has one window") {
  TemporaryFile file(".txt", letters(9));
  Batch batch = file_data(language_plan(256, 256), file.name(), 0)->batch(0);
  CHECK(batch.at("targets").i32 == std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("a .bin file holds little-endian uint16 tokens") {
  std::string bytes;
  for (int i = 0; i < 9; ++i) {
    bytes.push_back(static_cast<char>(i));
    bytes.push_back(1);
  }
  TemporaryFile file(".bin", bytes);
  Batch batch = file_data(language_plan(300, 300), file.name(), 0)->batch(0);
  for (size_t i = 0; i < 8; ++i) CHECK(batch.at("tokens").i32[i] == 256 + static_cast<int32_t>(i));
  CHECK(error_of(language_plan(300, 260), file.name()) ==
        "token 260 at position 4 is not below the vocabulary of the model, 260");
}

TEST_CASE("mistakes in a data file are named") {
  Plan plan = language_plan(256, 256);
  TemporaryFile text(".txt", letters(8)), odd(".bin", "abc"), empty(".empty", "");
  CHECK(error_of(plan, text.name()) == "the file has 8 tokens; a sequence of 8 needs at least 9");
  CHECK(error_of(plan, empty.name()) == "the file has 0 tokens; a sequence of 8 needs at least 9");
  CHECK(error_of(plan, odd.name()) == "a file of uint16 tokens has an even number of bytes, this one 3");
  CHECK(error_of(plan, "/no/such/file") == "cannot read \"/no/such/file\": No such file or directory");
  CHECK(error_of(plan, "/").find("not a regular file") != std::string::npos);
  TemporaryFile longer(".long", letters(200));
  CHECK(error_of(language_plan(96, 256), longer.name()) ==
        "token 96 at position 96 is not below the vocabulary of the model, 96");
  CHECK(error_of(testing::two_layer_plan(1), longer.name()) ==
        "a file of tokens cannot feed the f32 input \"x\"; use --data fixed");
}

}  // namespace
}  // namespace tpc
