// Fused and uneven tensors that were cut in the wrong places, or put together in the wrong order.
#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {
namespace {

/// q, k and v in one weight of 4 + 2 + 2 heads, gate and up in one of twice ffn rows, as Phi 3 has them.
constexpr const char* kFused = R"({"format": "tpc-model", "version": 1, "name": "fused",
"dims": {"batch": 4, "seq": 6, "vocab": 13, "hidden": 10, "all_heads": 8, "heads": 4, "kv_heads": 2, "head_dim": 3, "ffn": 9},
"inputs": {"tokens": {"shape": ["batch", "seq"], "dtype": "int32"}, "targets": {"shape": ["batch", "seq"], "dtype": "int32"}},
"layers": [
 {"name": "embed", "op": "embedding", "input": "tokens", "rows": "vocab", "out": ["hidden"], "init": {"normal": 1}},
 {"name": "qkv", "op": "linear", "input": "embed", "out": ["all_heads", "head_dim"]},
 {"name": "q", "op": "slice", "input": "qkv", "dim": "all_heads", "start": 0, "length": "heads"},
 {"name": "k", "op": "slice", "input": "qkv", "dim": "all_heads", "start": 4, "length": "kv_heads"},
 {"name": "v", "op": "slice", "input": "qkv", "dim": "all_heads", "start": 6, "length": "kv_heads"},
 {"name": "attn", "op": "attention", "inputs": ["q", "k", "v"], "causal": true},
 {"name": "o", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "gate_up", "op": "linear", "input": "o", "out": [2, "ffn"]},
 {"name": "act", "op": "gated", "input": "gate_up"},
 {"name": "down", "op": "linear", "input": "act", "out": ["hidden"]},
 {"name": "head", "op": "linear", "input": "down", "out": ["vocab"]},
 {"name": "loss", "op": "cross_entropy", "input": "head", "targets": "targets"}],
"loss": "loss", "optimizer": {"type": "adamw", "lr": 0.01}})";

constexpr const char* kGpt2 = R"({"format": "tpc-model", "version": 1, "name": "gpt2_attention",
"dims": {"batch": 2, "seq": 4, "hidden": 8, "heads": 2, "head_dim": 4},
"inputs": {"x": {"shape": ["batch", "seq", "hidden"], "dtype": "float32"}, "y": {"shape": ["batch", "seq", "hidden"], "dtype": "float32"}},
"layers": [
 {"name": "c_attn", "op": "linear", "input": "x", "out": [3, "heads", "head_dim"], "bias": true},
 {"name": "attn", "op": "attention", "input": "c_attn", "causal": true},
 {"name": "c_proj", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]},
 {"name": "loss", "op": "mean_squared_error", "input": "c_proj", "targets": "y"}],
"loss": "loss", "optimizer": {"type": "sgd", "lr": 0.1}})";

/// Rank r's region of dimension 0 of a tensor of two columns that lies in blocks of these heights.
Region block_of(const std::vector<int64_t>& heights, size_t r) {
  Interval rows;
  for (size_t i = 0; i < r; ++i) rows.begin += heights[i];
  rows.end = rows.begin + heights[r];
  return {{rows, {0, 2}}};
}

/// Runs one collective on `n` ranks from regions `from` to `to`; `value(rank, global row, column)` is what it reads.
std::vector<std::vector<float>> run_collective(OpKind op, int64_t rows, const std::vector<Region>& from,
                                               const std::vector<Region>& to,
                                               const std::function<float(int64_t, int64_t, int64_t)>& value) {
  int64_t n = static_cast<int64_t>(from.size());
  ThreadWorld world(n, {false, std::chrono::seconds(30)});
  std::vector<std::vector<float>> inputs, outputs;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < n; ++rank) {
    const Region& held = from[static_cast<size_t>(rank)];
    std::vector<float>& input = inputs.emplace_back();
    for (int64_t row = held.dims[0].begin; row < held.dims[0].end; ++row) {
      for (int64_t column = 0; column < 2; ++column) input.push_back(value(rank, row, column));
    }
    outputs.emplace_back(static_cast<size_t>(to[static_cast<size_t>(rank)].num_elements()));
  }
  for (int64_t rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      auto r = static_cast<size_t>(rank);
      ThreadCommunicator communicator(world, rank);
      CollectiveStep step;
      step.op = op;
      for (int64_t member = 0; member < n; ++member) step.group.push_back(member);
      step.index = rank;
      TensorType type{DType::kF32, {rows, 2}};
      step.input = {type, from[r], inputs[r].data()};
      step.output = {type, to[r], outputs[r].data()};
      step.input_regions = from;
      step.output_regions = to;
      communicator.prepare(step)->run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  world.rethrow_failure();
  return outputs;
}

}  // namespace

TEST_CASE("B034: each part of a fused weight is split by itself, uneven heads too") {
  FaultModel fused{kFused, {}};
  for (const MeshCase& mesh : {on("tp=2"), on("tp=3"), on("dp=2,tp=2"), searched_on("tp=2")}) {
    CAPTURE(mesh.name);
    CHECK(difference_from_one_rank(fused, mesh) == "");
  }
  // What is cut into unequal parts is held whole, so that a part's slice is never across ranks.
  CHECK(tensor_named(plan_of(fused, on("tp=2")), "qkv.weight").sharding.is_replicated());
  // gate | up is [2, ffn, hidden] and q | k | v [3, heads, head_dim, hidden]: a rank's part has some rows of each.
  Plan plan = plan_of(fused, on("tp=2"));
  CHECK(tensor_named(plan, "gate_up.weight").sharding.placements[0].is_shard_of(1));
  FaultModel gpt = shipped("tiny_gpt", {{"seq", 8}, {"vocab", 19}, {"hidden", 12}, {"head_dim", 3}, {"ffn", 21}});
  for (int64_t heads : {4, 5, 7}) {
    gpt.dims["heads"] = heads;
    for (const char* mesh : {"tp=2", "tp=3", "tp=4"}) {
      CAPTURE(heads);
      CAPTURE(mesh);
      CHECK(tensor_named(plan_of(gpt, on(mesh)), "block0.qkv.weight").sharding.placements[0].is_shard_of(1));
      CHECK(difference_from_one_rank(gpt, on(mesh), 1) == "");
    }
  }
}

TEST_CASE("B037: of GPT-2's fused c_attn a rank holds its heads' columns of q, of k and of v, and of the bias") {
  EveryRank run(plan_of({kGpt2, {}}, on("tp=2")));
  // Column j of row i is 100 i + j, i counts the input and j = (part, head, element).
  TensorType weight = tensor_named(run.plan(), "c_attn.weight").type;
  REQUIRE(weight.shape == Shape{3, 2, 4, 8});
  run.set_tensor("c_attn.weight", filled(weight, [](int64_t i) { return static_cast<float>(100 * (i % 8) + i / 8); }));
  run.set_tensor("c_attn.bias", filled({DType::kF32, {3, 2, 4}}, [](int64_t i) { return static_cast<float>(i); }));
  for (size_t rank = 0; rank < 2; ++rank) {
    std::vector<float> weights = run.parts("c_attn.weight")[rank].values.f32;
    std::vector<float> biases = run.parts("c_attn.bias")[rank].values.f32;
    REQUIRE(weights.size() == 96);
    REQUIRE(biases.size() == 12);
    for (size_t part = 0; part < 3; ++part) {
      for (size_t element = 0; element < 4; ++element) {
        size_t column = part * 8 + rank * 4 + element;
        CHECK(biases[part * 4 + element] == static_cast<float>(column));
        for (size_t row = 0; row < 8; ++row) {
          CHECK(weights[(part * 4 + element) * 8 + row] == static_cast<float>(100 * row + column));
        }
      }
    }
  }
}

TEST_CASE("B040: a gathered fused output has its elements in one rank's order") {
  FaultModel model =
      with(shipped("small_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}}),
           R"("op": "attention", "input": "qkv")", R"("op": "attention", "input": "qkv", "shard": "replicate")");
  for (const char* mesh : {"tp=2", "tp=3", "tp=8"}) {
    CAPTURE(mesh);
    EveryRank run(plan_of(model, on(mesh)));
    std::vector<std::string> gathered;
    for (size_t i : find_steps(run.plan(), [](const PlanStep& step) {
           return step.op == OpKind::kAllGather && step.phase == Phase::kForward && step.layer == "block0.attn";
         })) {
      gathered.push_back(run.plan().tensors[static_cast<size_t>(run.plan().steps[i].results[0])].name);
    }
    REQUIRE(!gathered.empty());
    EveryRank single(plan_of(model, on("tp=1")));
    for (const std::string& name : gathered) {
      run.keep(name);
      single.keep(name.substr(0, name.find('@')));
    }
    Batch batch = fixed_batch(single.plan());
    single.train_step(batch);
    run.train_step(batch);
    for (const std::string& name : gathered) {
      CAPTURE(name);
      std::vector<float> wanted = single.parts(name.substr(0, name.find('@')))[0].values.f32;
      for (const EveryRank::Part& part : run.parts(name)) {
        REQUIRE(part.values.size() == wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(part.values.f32[i] - wanted[i]) < 1e-6F);
      }
    }
  }
}

TEST_CASE("B049: uneven blocks are gathered and scattered at their own boundaries") {
  // As the compiler cuts 14 on 4 ranks, and in blocks that no rule gives.
  DeviceMesh mesh({{"tp", 4}});
  std::vector<int64_t> balanced;
  for (int64_t r = 0; r < 4; ++r) balanced.push_back(balanced_block(14, 1, 4, r).size());
  CHECK(balanced == std::vector<int64_t>{4, 4, 3, 3});
  std::vector<Region> whole(4, Region{{{0, 14}, {0, 2}}});
  for (const std::vector<int64_t>& heights : {balanced, std::vector<int64_t>{2, 3, 4, 5}}) {
    std::vector<Region> blocks;
    for (size_t r = 0; r < 4; ++r) blocks.push_back(block_of(heights, r));
    auto numbered = [](int64_t, int64_t row, int64_t column) { return static_cast<float>(row * 2 + column); };
    for (const std::vector<float>& found : run_collective(OpKind::kAllGather, 14, blocks, whole, numbered)) {
      for (size_t i = 0; i < 28; ++i) CHECK(found[i] == static_cast<float>(i));
    }
    auto share = [](int64_t rank, int64_t row, int64_t column) {
      return static_cast<float>(row * 2 + column + (rank == 0 ? 1000 : 0));
    };
    std::vector<std::vector<float>> scattered = run_collective(OpKind::kReduceScatter, 14, whole, blocks, share);
    for (size_t r = 0; r < 4; ++r) {
      for (size_t i = 0; i < scattered[r].size(); ++i) {
        int64_t index = blocks[r].dims[0].begin * 2 + static_cast<int64_t>(i);
        CHECK(scattered[r][i] == static_cast<float>(4 * index + 1000));
      }
    }
  }
  // 3 on 4 ranks is no split.
  std::optional<std::string> reason = why_illegal({3}, {{Placement::shard(0)}}, mesh);
  REQUIRE(reason.has_value());
  CHECK(reason->find("3") != std::string::npos);
  FaultModel small = shipped("small_gpt", {{"ffn", 3}});
  CHECK(compile_error(small, on("tp=4")).find("\"block0.fc1\" is split by ffn (3), too few for tp 4") !=
        std::string::npos);
}

}  // namespace tpc::testing
