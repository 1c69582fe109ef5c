// The closed forms of tensor-parallel training, as the report gives them: every block at tp 2, 4, 8 and two shapes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/plan/rank_plan.h"
#include "compiler/plan/report.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

using Dims = std::map<std::string, int64_t>;

/// Sizes that 8 ranks divide evenly.
const std::vector<Dims>& shapes() {
  static const std::vector<Dims> all{
      {{"batch", 4}, {"seq", 32}, {"hidden", 128}, {"head_dim", 16}, {"ffn", 512}, {"vocab", 256}},
      {{"batch", 2}, {"seq", 16}, {"hidden", 64}, {"head_dim", 8}, {"ffn", 320}, {"vocab", 136}}};
  return all;
}

MeshCase tp(int64_t n, bool sequence_parallel = false) {
  return {fmt::format("tp {}", n), DeviceMesh({{"tp", n}}), sequence_parallel};
}

struct Volume {
  double phi = 0;
  int collectives = 0;
};

/// Sum over the collectives of these layers (all layers when empty), one phase, one axis.
Volume volume(const Report& report, const std::vector<std::string>& layers, Phase phase, const std::string& axis) {
  Volume total;
  for (const CollectiveRow& row : report.collectives) {
    bool wanted = layers.empty();
    for (const std::string& layer : layers) wanted = wanted || row.layer == layer;
    if (!wanted || row.phase != phase || row.axis != axis) continue;
    total.phi += row.volume_phi;
    ++total.collectives;
  }
  return total;
}

void check_volume(const Report& report, const std::vector<std::string>& layers, Phase phase, double phi,
                  int collectives) {
  CAPTURE(layers[0]);
  CAPTURE(to_string(phase));
  Volume found = volume(report, layers, phase, "tp");
  CHECK(found.phi == doctest::Approx(phi));
  CHECK(found.collectives == collectives);
}

/// The ring formula, and that exact bytes are the same wherever the blocks are even (a scalar's are not).
void check_ring(const Report& report) {
  for (const CollectiveRow& row : report.collectives) {
    double n = static_cast<double>(row.group_size);
    CAPTURE(row.tensor);
    CHECK(row.ring_bytes == doctest::Approx(row.volume_elements * (n - 1) / n * 4));
    if (row.elements % row.group_size != 0) continue;
    CHECK(static_cast<double>(row.received_bytes_max) == doctest::Approx(row.ring_bytes));
    CHECK(row.received_bytes_min == row.received_bytes_max);
  }
}

}  // namespace

TEST_CASE("tensor parallelism: attention 4 Phi, MLP 4 Phi, embedding 2 Phi, head 2 Phi, loss 3 b s") {
  for (const Dims& dims : shapes()) {
    for (int64_t n : {2, 4, 8}) {
      CAPTURE(n);
      Report report = make_report(compile_model("small_gpt", dims, tp(n)).plan);
      CHECK(report.phi.elements == dims.at("batch") * dims.at("seq") * dims.at("hidden"));
      for (const char* block : {"block0.", "block1."}) {
        std::string prefix = block;
        check_volume(report, {prefix + "proj"}, Phase::kForward, 2, 1);
        check_volume(report, {prefix + "qkv"}, Phase::kBackward, 2, 1);
        check_volume(report, {prefix + "fc2"}, Phase::kForward, 2, 1);
        check_volume(report, {prefix + "fc1"}, Phase::kBackward, 2, 1);
      }
      check_volume(report, {"embed"}, Phase::kForward, 2, 1);
      check_volume(report, {"embed"}, Phase::kBackward, 0, 0);
      check_volume(report, {"head"}, Phase::kBackward, 2, 1);
      // Maximum, then sum of exponentials and target logit packed: three times b·s numbers in two collectives.
      check_volume(report, {"loss"}, Phase::kForward, 2 * 3.0 / static_cast<double>(dims.at("hidden")), 2);
      // Parameters of norms lie on equal inputs: nothing to reduce in the optimizer.
      CHECK(volume(report, {}, Phase::kOptimizer, "tp").collectives == 0);
      // A layer of two blocks and the ends: (8 L + 4) Phi and three times b·s.
      double tokens = static_cast<double>(dims.at("batch") * dims.at("seq"));
      CHECK(report.step.volume_elements ==
            doctest::Approx(20.0 * static_cast<double>(report.phi.elements) + 6 * tokens));
      check_ring(report);
    }
  }
}

TEST_CASE("the tutorial sizes receive 656896, 985344 and 1149568 bytes a rank and step") {
  const std::map<int64_t, int64_t> wanted{{2, 656896}, {4, 985344}, {8, 1149568}};
  for (const auto& [n, bytes] : wanted) {
    CHECK(make_report(compile_model("small_gpt", {}, tp(n)).plan).step.received_bytes == bytes);
  }
}

TEST_CASE("sequence parallelism: 8 Phi a layer in all_gathers and reduce_scatters, gathered inputs kept") {
  for (const Dims& dims : shapes()) {
    for (int64_t n : {2, 4, 8}) {
      CAPTURE(n);
      Report report = make_report(compile_model("small_gpt", dims, tp(n, true)).plan);
      for (const char* block : {"block0.", "block1."}) {
        std::string prefix = block;
        check_volume(report, {prefix + "ln1", prefix + "proj", prefix + "ln2", prefix + "fc2"}, Phase::kForward, 4, 4);
      }
      double forward = volume(report, {}, Phase::kForward, "tp").phi;
      double backward = volume(report, {}, Phase::kBackward, "tp").phi;
      double loss = 2 * 3.0 / static_cast<double>(dims.at("hidden"));
      // 4 Phi each way a layer; embedding 1 and 1 more where its gradient is gathered, head 1 and 1.
      CHECK(forward == doctest::Approx(4 * 2 + 2 + loss));
      // Norms see their own tokens only: the gradients of their 5 x 2 parameters are summed.
      double norms = 2 * 10.0 * static_cast<double>(dims.at("hidden")) / static_cast<double>(report.phi.elements);
      CHECK(backward == doctest::Approx(4 * 2 + 2 + norms));
      for (const CollectiveRow& row : report.collectives) {
        bool stream = row.elements != dims.at("hidden") && row.layer != "loss";
        if (stream) CHECK((row.kind == OpKind::kAllGather || row.kind == OpKind::kReduceScatter));
      }
      check_ring(report);
    }
  }
}

TEST_CASE("data parallelism: twice the parameters, whatever the tokens") {
  for (const Dims& dims : shapes()) {
    for (int64_t n : {2, 4}) {
      Dims sizes = dims;
      sizes["batch"] = 8;
      CAPTURE(n);
      Report report = make_report(compile_model("tiny_gpt", sizes, {"dp", DeviceMesh({{"dp", n}}), false}).plan);
      double parameters = static_cast<double>(report.ranks[0].parameters);
      double gradients = 0;
      for (const CollectiveRow& row : report.collectives) {
        // Where they are made: in backward. Elsewhere only the sum and the count of the loss.
        if (row.phase == Phase::kBackward) gradients += row.volume_elements;
        if (row.phase != Phase::kBackward) CHECK(row.elements == 1);
      }
      CHECK(gradients == doctest::Approx(2 * parameters));
      check_ring(report);
    }
  }
}

TEST_CASE("kv heads fewer than ranks: weight gradients of K and V in groups, nothing per token") {
  for (int64_t batch : {4, 8}) {
    // llama_tiny has 8 heads in 4 or fewer kv groups; 8 ranks are kv heads times the ranks of a group.
    CompileResult result = compile_model("llama_tiny", {{"batch", batch}, {"kv_heads", 2}}, tp(8));
    Report report = make_report(result.plan);
    double shared = 0;
    for (const CollectiveRow& row : report.collectives) {
      if (row.axis != "tp.1") continue;
      CHECK(row.phase == Phase::kBackward);
      CHECK(row.kind == OpKind::kAllReduce);
      CHECK(row.group_size == 4);
      shared += row.volume_elements;
    }
    int64_t weights = 0;
    for (const PlanTensor& tensor : result.plan.tensors) {
      bool shared_weight = tensor.name.ends_with(".k.weight") || tensor.name.ends_with(".v.weight");
      if (tensor.role == TensorRole::kParameter && shared_weight) weights += num_elements(tensor.type.shape);
    }
    REQUIRE(weights > 0);
    // Each group reduces its half of the kv heads.
    CHECK(shared == doctest::Approx(2.0 * static_cast<double>(weights) / 2));
  }
}

TEST_CASE("uneven sizes: the bytes of every rank are those of its blocks") {
  Dims dims{{"vocab", 19}, {"ffn", 21}, {"hidden", 12}, {"heads", 8}, {"head_dim", 3}, {"seq", 7}, {"batch", 3}};
  for (int64_t n : {3, 5, 6, 7}) {
    Plan plan = compile_model("small_gpt", dims, tp(n)).plan;
    Report report = make_report(plan);
    int64_t most = 0;
    for (int64_t rank = 0; rank < n; ++rank) {
      int64_t received = rank_plan(plan, rank).received_bytes();
      CHECK(report.ranks[static_cast<size_t>(rank)].received_bytes == received);
      most = std::max(most, received);
    }
    CHECK(report.step.received_bytes == most);
  }
}

}  // namespace tpc::testing
