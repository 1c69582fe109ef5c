// Random numbers that depended on how many ranks there were.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

/// Dropout on the residual stream and on the heads of q, k and v.
constexpr const char* kDropped = R"({"format": "tpc-model", "version": 1, "name": "dropped",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 12, "heads": 4, "head_dim": 3},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"], "init": {"normal": 1}},
 {"name": "bent", "op": "gelu", "input": "embed"},
 {"name": "drop_stream", "op": "dropout", "input": "bent", "rate": 0.3},
 {"name": "norm", "op": "layer_norm", "input": "drop_stream"},
 {"name": "qkv", "op": "linear", "input": "norm", "out": [3, "heads", "head_dim"], "init": {"normal": 1}},
 {"name": "drop_heads", "op": "dropout", "input": "qkv", "rate": 0.3},
 {"name": "attn", "op": "attention", "input": "drop_heads"},
 {"name": "proj", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "res", "op": "add", "inputs": ["drop_stream", "proj"]},
 {"name": "head", "op": "linear", "input": "res", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1}})";

/// Number of linearly independent rows, by elimination.
size_t rank_of(std::vector<std::vector<double>> rows) {
  size_t rank = 0;
  for (size_t column = 0; column < rows[0].size() && rank < rows.size(); ++column) {
    auto largest =
        std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(rank), rows.end(),
                         [&](const auto& a, const auto& b) { return std::abs(a[column]) < std::abs(b[column]); });
    if (std::abs((*largest)[column]) < 1e-9) continue;
    std::swap(*largest, rows[rank]);
    for (size_t i = rank + 1; i < rows.size(); ++i) {
      double factor = rows[i][column] / rows[rank][column];
      for (size_t j = column; j < rows[i].size(); ++j) rows[i][j] -= factor * rows[rank][j];
    }
    ++rank;
  }
  return rank;
}

/// Parameters are cut from those of one rank, bit by bit; the first one that is not, or "".
std::string other_start(const EveryRank& single, const EveryRank& run) {
  for (const PlanTensor& tensor : single.plan().tensors) {
    if (tensor.role != TensorRole::kParameter) continue;
    HostTensor whole = single.parts(tensor.name)[0].values;
    for (const EveryRank::Part& part : run.parts(tensor.name)) {
      if (part.values.f32 != cut(whole, part.region)) return tensor.name;
    }
  }
  return "";
}

void check_first_losses(const FaultModel& model, uint64_t seed) {
  EveryRank single(plan_of(model, on("tp=1")), seed);
  Batch batch = fixed_batch(single.plan());
  single.train_step(batch);
  EveryRank untrained(plan_of(model, on("tp=1")), seed);
  for (const MeshCase& mesh : {on("tp=2"), on("tp=4"), on("tp=8"), on("tp=2", true), on("dp=2,tp=2", false, 3)}) {
    CAPTURE(mesh.name);
    EveryRank run(plan_of(model, mesh), seed);
    CHECK(other_start(untrained, run) == "");
    CHECK(run.unequal_replicas() == "");
    run.train_step(batch);
    CHECK(run.loss() == doctest::Approx(single.loss()).epsilon(1e-6));
    CHECK(difference_from_one_rank(model, mesh, 1) == "");
  }
}

}  // namespace

TEST_CASE("B014: a replicated layer starts as the same bits on every rank, and the first loss does not know tp") {
  check_first_losses(
      with(shipped("tiny_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}}),
           R"("op": "linear", "input": "ln2")", R"("op": "linear", "shard": "replicate", "input": "ln2")"),
      0);
}

TEST_CASE("B029: the blocks of a split weight are not copies of one another") {
  FaultModel model = shipped("small_gpt", {{"hidden", 16}, {"head_dim", 2}, {"ffn", 16}});
  EveryRank run(plan_of(model, on("tp=2")));
  std::vector<EveryRank::Part> parts = run.parts("block0.fc1.weight");
  REQUIRE(parts[0].values.type.shape == Shape{8, 16});
  CHECK(parts[0].values.f32 != parts[1].values.f32);
  std::vector<std::vector<double>> rows;
  for (const EveryRank::Part& part : parts) {
    for (size_t i = 0; i < 8; ++i) {
      auto row = part.values.f32.begin() + static_cast<std::ptrdiff_t>(i * 16);
      rows.emplace_back(row, row + 16);
    }
  }
  CHECK(rank_of(rows) == 16);
}

TEST_CASE("B030: from a seed alone, without a checkpoint, the first step is the same for every tp") {
  check_first_losses(shipped("llama_tiny", {{"seq", 8}, {"hidden", 16}, {"ffn", 24}}), 1);
}

TEST_CASE("B031: dropout masks are equal where ranks hold one tensor, and differ where they hold parts of it") {
  FaultModel model{kDropped, {}};
  EveryRank single(plan_of(model, on("tp=1")));
  for (const char* name : {"drop_stream", "drop_heads"}) single.keep(name);
  Batch batch = fixed_batch(single.plan());
  single.train_step(batch);
  for (bool sequence_parallel : {false, true}) {
    CAPTURE(sequence_parallel);
    EveryRank run(plan_of(model, on("dp=2,tp=2", sequence_parallel)));
    // Rows over dp; over tp the stream is whole, or split by sequence, and q, k and v by heads.
    const TensorSharding& stream = tensor_named(run.plan(), "drop_stream").sharding;
    CHECK(stream.placements[0].is_shard_of(0));
    CHECK(stream.placements[1] == (sequence_parallel ? Placement::shard(1) : Placement::replicate()));
    CHECK(tensor_named(run.plan(), "drop_heads").sharding.placements[1].is_shard_of(3));
    for (const char* name : {"drop_stream", "drop_heads"}) run.keep(name);
    run.train_step(batch);
    for (const char* name : {"drop_stream", "drop_heads"}) {
      HostTensor whole = single.parts(name)[0].values;
      std::vector<EveryRank::Part> parts = run.parts(name);
      std::vector<std::vector<bool>> masks;
      for (const EveryRank::Part& part : parts) {
        std::vector<float> wanted = cut(whole, part.region);
        std::vector<bool> mask;
        for (size_t i = 0; i < wanted.size(); ++i) {
          CHECK((wanted[i] == 0.0F) == (part.values.f32[i] == 0.0F));
          mask.push_back(wanted[i] == 0.0F);
        }
        masks.push_back(std::move(mask));
      }
      for (size_t a = 0; a < masks.size(); ++a) {
        for (size_t b = a + 1; b < masks.size(); ++b) {
          CHECK((masks[a] == masks[b]) == (parts[a].region == parts[b].region));
        }
      }
    }
    CHECK(difference_from_one_rank(model, on("dp=2,tp=2", sequence_parallel)) == "");
  }
}

}  // namespace tpc::testing
