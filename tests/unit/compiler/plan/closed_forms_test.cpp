// The closed forms of communication that the megatron strategy must reproduce exactly.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/plan/rank_plan.h"
#include "compiler/plan/report.h"
#include "tests/support/program.h"

namespace tpc {
namespace {

using Dims = std::map<std::string, int64_t>;

Report report_of(const std::string& model, const Dims& dims, const DeviceMesh& mesh, bool sequence_parallel = false) {
  return make_report(testing::compile_model(model, dims, {"", mesh, sequence_parallel}).plan);
}

DeviceMesh tp(int64_t size) { return DeviceMesh({{"tp", size}}); }

/// Sum of the volumes, in Phi, of the collectives that `wanted` accepts.
template <class Wanted>
double volume(const Report& report, Wanted&& wanted) {
  double sum = 0;
  for (const CollectiveRow& row : report.collectives) {
    if (wanted(row)) sum += row.volume_phi;
  }
  return sum;
}

/// With even blocks every rank receives the ring's figure: logical volume * (n - 1) / n * element size.
void check_ring(const Report& report) {
  double bytes = 0;
  for (const CollectiveRow& row : report.collectives) {
    double n = static_cast<double>(row.group_size);
    CHECK(row.ring_bytes == doctest::Approx(row.volume_elements * (n - 1) / n * 4));
    // A tensor smaller than the group (a scalar) has no even split.
    bool is_even = row.elements % row.group_size == 0;
    if (is_even) {
      CHECK(static_cast<double>(row.received_bytes_max) == row.ring_bytes);
      CHECK(row.received_bytes_min == row.received_bytes_max);
    }
    bytes += static_cast<double>(row.received_bytes_max);
  }
  CHECK(static_cast<double>(report.step.received_bytes) == bytes);
}

const Dims kShapes[] = {{{"batch", 4}, {"seq", 32}}, {{"batch", 2}, {"seq", 24}, {"hidden", 64}, {"ffn", 192}}};

}  // namespace

TEST_CASE("a transformer layer is 8Φ: attention 2Φ + 2Φ, MLP 2Φ + 2Φ") {
  for (const Dims& dims : kShapes) {
    for (int64_t size : {2, 4, 8}) {
      CAPTURE(size);
      Report report = report_of("small_gpt", dims, tp(size));
      double tokens = static_cast<double>(dims.at("batch") * dims.at("seq"));
      CHECK(static_cast<double>(report.phi.elements) == tokens * static_cast<double>(report.phi.shape.back()));
      for (const std::string block : {"block0", "block1"}) {
        auto of = [&](Phase phase, std::initializer_list<std::string> layers) {
          return volume(report, [&](const CollectiveRow& row) {
            bool inside = false;
            for (const std::string& layer : layers) inside = inside || row.layer == block + "." + layer;
            return inside && row.phase == phase;
          });
        };
        CHECK(of(Phase::kForward, {"qkv", "attn", "proj"}) == 2);
        CHECK(of(Phase::kBackward, {"qkv", "attn", "proj"}) == 2);
        CHECK(of(Phase::kForward, {"fc1", "act", "fc2"}) == 2);
        CHECK(of(Phase::kBackward, {"fc1", "act", "fc2"}) == 2);
        CHECK(volume(report, [&](const CollectiveRow& row) { return row.block == block; }) == 8);
      }
      check_ring(report);
    }
  }
}

TEST_CASE("vocabulary-parallel embedding 2Φ + 0; head dX 2Φ; loss b·s and 2·b·s numbers, never the logits") {
  for (const Dims& dims : kShapes) {
    for (int64_t size : {2, 4, 8}) {
      Report report = report_of("small_gpt", dims, tp(size));
      auto of = [&](const std::string& layer, Phase phase) {
        return volume(report, [&](const CollectiveRow& row) { return row.layer == layer && row.phase == phase; });
      };
      CHECK(of("embed", Phase::kForward) == 2);
      CHECK(of("embed", Phase::kBackward) == 0);
      CHECK(of("head", Phase::kForward) == 0);
      CHECK(of("head", Phase::kBackward) == 2);
      double hidden = static_cast<double>(report.phi.shape.back());
      CHECK(of("loss", Phase::kForward) == doctest::Approx(2 * 3 / hidden));
      CHECK(of("loss", Phase::kBackward) == 0);
    }
  }
}

TEST_CASE("a whole step of the tutorial model, in bytes") {
  const std::pair<int64_t, int64_t> bytes[] = {{2, 656896}, {4, 985344}, {8, 1149568}};
  for (const auto& [size, wanted] : bytes) {
    CHECK(report_of("small_gpt", {}, tp(size)).step.received_bytes == wanted);
  }
}

TEST_CASE("sequence-parallel: all_gathers and reduce_scatters in place of all_reduces, the same 8Φ a layer") {
  for (const Dims& dims : kShapes) {
    for (int64_t size : {2, 4, 8}) {
      Report report = report_of("small_gpt", dims, tp(size), true);
      auto of = [&](Phase phase, OpKind kind) {
        return volume(report, [&](const CollectiveRow& row) { return row.phase == phase && row.kind == kind; });
      };
      // Two layers of 2 + 2 each way; the embedding's reduce_scatter and its gradient's all_gather, the head's
      // all_gather and its gradient's reduce_scatter.
      CHECK(of(Phase::kForward, OpKind::kAllGather) == 2 * 2 + 1);
      CHECK(of(Phase::kForward, OpKind::kReduceScatter) == 2 * 2 + 1);
      CHECK(of(Phase::kBackward, OpKind::kAllGather) == 2 * 2 + 1);
      CHECK(of(Phase::kBackward, OpKind::kReduceScatter) == 2 * 2 + 1);
      Report plain = report_of("small_gpt", dims, tp(size));
      CHECK(report.ranks[0].peak_activation_bytes < plain.ranks[0].peak_activation_bytes);
      check_ring(report);
    }
  }
}

TEST_CASE("data parallelism: 2 x the parameters that a rank holds, and nothing more a token on tp") {
  for (const Dims& dims : kShapes) {
    for (int64_t size : {1, 2, 4, 8}) {
      CAPTURE(size);
      Report report = report_of("small_gpt", dims, DeviceMesh({{"dp", 2}, {"tp", size}}));
      double gradients = 0;
      double layers = 0;
      for (const CollectiveRow& row : report.collectives) {
        if (row.axis == "dp" && row.phase == Phase::kBackward) gradients += row.volume_elements;
        if (row.axis == "tp" && row.block == "block1") layers += row.volume_phi;
      }
      CHECK(gradients == 2 * static_cast<double>(report.ranks[0].parameters));
      CHECK(layers == (size == 1 ? 0 : 8));
      check_ring(report);
    }
  }
}

TEST_CASE("kv heads < tp: dW_k and dW_v reduced in groups of tp / kv heads, whatever the tokens") {
  for (int64_t batch : {2, 8}) {
    Report report = report_of("llama_tiny", {{"batch", batch}, {"kv_heads", 2}}, tp(4));
    // [kv_heads, head_dim, hidden]
    int64_t kv_weight = 2 * 16 * report.phi.shape.back();
    int64_t found = 0;
    for (const CollectiveRow& row : report.collectives) {
      bool is_shared =
          row.tensor.starts_with("grad.") && (row.tensor.ends_with(".k.weight") || row.tensor.ends_with(".v.weight"));
      if (!is_shared) continue;
      ++found;
      CHECK(row.group_size == 2);
      CHECK(row.kind == OpKind::kAllReduce);
      // Half of the weight: the rest lies on the other axis.
      CHECK(row.elements * 2 == kv_weight);
    }
    CHECK(found > 0);
  }
}

TEST_CASE("uneven sizes: the report's bytes are those of every rank's program") {
  for (int64_t size : {3, 5, 6, 7}) {
    CAPTURE(size);
    Plan plan = testing::compile_model("small_gpt", {{"ffn", 509}, {"vocab", 251}}, {"", tp(size), false}).plan;
    Report report = make_report(plan);
    for (int64_t rank = 0; rank < size; ++rank) {
      int64_t received = rank_plan(plan, rank).received_bytes();
      CHECK(report.ranks[static_cast<size_t>(rank)].received_bytes == received);
    }
    // 8 heads: the fullest rank has ceil(8 / n).
    CHECK(report.ranks[0].multiply_adds > report.ranks[static_cast<size_t>(size - 1)].multiply_adds);
  }
}

}  // namespace tpc
