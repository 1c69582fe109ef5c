// What the search must find: closed forms of a layer's cost on one axis, two and sub-axes, in Phi = b·s·h elements of
// which a rank receives (n - 1) / n. Per layer: the difference between five layers and four.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/plan/report.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

struct Sizes {
  int64_t batch = 1;
  int64_t seq = 2048;
  int64_t hidden = 4096;
  int64_t heads = 32;
  int64_t kv_heads = 32;
  int64_t ffn = 16384;
  double tokens() const { return static_cast<double>(batch * seq); }
};

/// Gains are frozen: their gradients, h numbers a layer, would blur the forms.
constexpr const char* kNorm = R"("op": "rms_norm", "trainable": false)";

std::string gpt_layer() {
  return fmt::format(R"(
    {{"name": "n1", {0}, "input": "x"}},
    {{"name": "qkv", "op": "linear", "input": "n1", "out": [3, "heads", "head_dim"]}},
    {{"name": "attn", "op": "attention", "input": "qkv", "causal": true}},
    {{"name": "proj", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]}},
    {{"name": "res", "op": "add", "inputs": ["x", "proj"]}},
    {{"name": "n2", {0}, "input": "res"}},
    {{"name": "fc1", "op": "linear", "input": "n2", "out": ["ffn"]}},
    {{"name": "act", "op": "gelu", "input": "fc1"}},
    {{"name": "fc2", "op": "linear", "input": "act", "out": ["hidden"]}},
    {{"name": "x", "op": "add", "inputs": ["res", "fc2"]}})",
                     kNorm);
}

std::string llama_layer() {
  return fmt::format(R"(
    {{"name": "n1", {0}, "input": "x"}},
    {{"name": "q", "op": "linear", "input": "n1", "out": ["heads", "head_dim"]}},
    {{"name": "k", "op": "linear", "input": "n1", "out": ["kv_heads", "head_dim"]}},
    {{"name": "v", "op": "linear", "input": "n1", "out": ["kv_heads", "head_dim"]}},
    {{"name": "q_rope", "op": "rope", "input": "q", "theta": 10000}},
    {{"name": "k_rope", "op": "rope", "input": "k", "theta": 10000}},
    {{"name": "attn", "op": "attention", "inputs": ["q_rope", "k_rope", "v"], "causal": true}},
    {{"name": "proj", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]}},
    {{"name": "res", "op": "add", "inputs": ["x", "proj"]}},
    {{"name": "n2", {0}, "input": "res"}},
    {{"name": "gate", "op": "linear", "input": "n2", "out": ["ffn"]}},
    {{"name": "up", "op": "linear", "input": "n2", "out": ["ffn"]}},
    {{"name": "act", "op": "gated", "inputs": ["gate", "up"], "activation": "silu"}},
    {{"name": "fc2", "op": "linear", "input": "act", "out": ["hidden"]}},
    {{"name": "x", "op": "add", "inputs": ["res", "fc2"]}})",
                     kNorm);
}

/// Attention and MLP side by side, from one norm into one sum.
std::string parallel_layer() {
  return fmt::format(R"(
    {{"name": "n1", {0}, "input": "x"}},
    {{"name": "qkv", "op": "linear", "input": "n1", "out": [3, "heads", "head_dim"]}},
    {{"name": "attn", "op": "attention", "input": "qkv", "causal": true}},
    {{"name": "proj", "op": "linear", "input": "attn", "contract": ["heads", "head_dim"], "out": ["hidden"]}},
    {{"name": "fc1", "op": "linear", "input": "n1", "out": ["ffn"]}},
    {{"name": "act", "op": "gelu", "input": "fc1"}},
    {{"name": "fc2", "op": "linear", "input": "act", "out": ["hidden"]}},
    {{"name": "both", "op": "add", "inputs": ["proj", "fc2"]}},
    {{"name": "x", "op": "add", "inputs": ["x", "both"]}})",
                     kNorm);
}

std::string model_text(const std::string& layer, const Sizes& sizes, int layers) {
  return fmt::format(R"({{"format": "tpc-model", "version": 1, "name": "figures",
  "dims": {{"batch": {}, "seq": {}, "hidden": {}, "heads": {}, "kv_heads": {}, "head_dim": {}, "ffn": {}}},
  "inputs": {{"input": {{"shape": ["batch", "seq", "hidden"], "dtype": "float32"}},
              "wanted": {{"shape": ["batch", "seq", "hidden"], "dtype": "float32"}}}},
  "layers": [
    {{"name": "first", "op": "linear", "input": "input", "out": ["hidden"]}},
    {{"repeat": {}, "name": "block{{i}}", "carry": "x", "from": "first", "layers": [{}]}},
    {{"name": "loss", "op": "mean_squared_error", "input": "block{{last}}.x", "targets": "wanted"}}],
  "loss": "loss", "optimizer": {{"type": "adamw", "lr": 0.001}}}})",
                     sizes.batch, sizes.seq, sizes.hidden, sizes.heads, sizes.kv_heads, sizes.hidden / sizes.heads,
                     sizes.ffn, layers, layer);
}

struct PerLayer {
  double price = 0;
  double memory = 0;
  CompileResult five;
};

PerLayer per_layer(const std::string& layer, const Sizes& sizes, const char* mesh, const SearchOptions& search) {
  MeshCase searched{"search", *parse_mesh(mesh), false, 0, "search", search};
  CompileResult four = compile_text(model_text(layer, sizes, 4), "figures.json", {}, searched);
  CompileResult five = compile_text(model_text(layer, sizes, 5), "figures.json", {}, searched);
  REQUIRE(five.plan.proof->is_optimal());
  return {static_cast<double>(five.plan.proof->price - four.plan.proof->price),
          static_cast<double>(five.plan.proof->memory - four.plan.proof->memory), std::move(five)};
}

double phi_of(double price, const Sizes& sizes, double n) {
  return price / (sizes.tokens() * static_cast<double>(sizes.hidden) * 4 * (n - 1) / n);
}

std::string tp(int64_t n) { return fmt::format("tp={}", n); }

SearchOptions whole_tokens() {
  SearchOptions options;
  options.no_split = {"seq", "batch"};
  return options;
}

/// Steady cost of a layer in Phi, tokens splittable: attention by heads, by heads with a token-sharded out-projection,
/// or by tokens with whole weights; MLP column -> row, or by tokens. x = h / (b s), g = kv heads / heads, m = weights
/// of the MLP in h^2.
double closed_form(double n, double x, double g, double m) {
  double attention = std::min({4.0, 2 + 2 / n + 2 * x, std::min((4 + 4 * g) / n, 4 * g) + 2 * (2 + 2 * g) * x});
  return attention + std::min(4.0, 2 * m * x);
}

}  // namespace

TEST_CASE("search: 8 Phi a layer when tokens may not be split, whatever the shape") {
  for (int64_t n : {2, 4, 8}) {
    for (int64_t seq : {1024, 4096, 65536}) {
      Sizes sizes;
      sizes.seq = seq;
      CAPTURE(n);
      CAPTURE(seq);
      PerLayer found = per_layer(gpt_layer(), sizes, tp(n).c_str(), whole_tokens());
      CHECK(phi_of(found.price, sizes, static_cast<double>(n)) == doctest::Approx(8));
    }
  }
}

TEST_CASE("search: the table of a GPT layer, tokens splittable") {
  for (int64_t n : {2, 4, 8, 16}) {
    for (double ratio : {1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0}) {
      Sizes sizes;
      sizes.seq = static_cast<int64_t>(4096 * ratio);
      CAPTURE(n);
      CAPTURE(ratio);
      PerLayer found = per_layer(gpt_layer(), sizes, tp(n).c_str(), {});
      double ranks = static_cast<double>(n);
      CHECK(phi_of(found.price, sizes, ranks) == doctest::Approx(closed_form(ranks, 1 / ratio, 1, 8)));
    }
  }
}

TEST_CASE("search: the table of a Llama layer, 8 kv heads of 32, ffn 3.5 h") {
  for (int64_t n : {2, 4, 8}) {
    for (double ratio : {1.0, 1.5, 2.0, 3.0, 6.0, 16.0}) {
      Sizes sizes;
      sizes.seq = static_cast<int64_t>(4096 * ratio);
      sizes.kv_heads = 8;
      sizes.ffn = 14336;
      CAPTURE(n);
      CAPTURE(ratio);
      PerLayer found = per_layer(llama_layer(), sizes, tp(n).c_str(), {});
      double ranks = static_cast<double>(n);
      CHECK(phi_of(found.price, sizes, ranks) == doctest::Approx(closed_form(ranks, 1 / ratio, 0.25, 10.5)));
    }
  }
}

TEST_CASE(
    "search: by bytes and memory the sequence-parallel form that keeps gathered inputs; re-gathering has a price") {
  Sizes sizes;
  PerLayer whole = per_layer(gpt_layer(), sizes, "tp=8", whole_tokens());
  PerLayer kept = per_layer(gpt_layer(), sizes, "tp=8", {});
  CHECK(phi_of(kept.price, sizes, 8) == doctest::Approx(8));
  CHECK(kept.memory < whole.memory);
  // Units of b·s·h: norms' inputs and the attention's and MLP's own tensors split, the two gathered inputs whole.
  double unit = sizes.tokens() * static_cast<double>(sizes.hidden) * 4;
  double weights = 12 * std::pow(static_cast<double>(sizes.hidden), 2) * 4 * 4 / 8;
  CHECK((kept.memory - weights) / unit == doctest::Approx(2 + 14.0 / 8).epsilon(0.01));
  CHECK((whole.memory - weights) / unit == doctest::Approx(4 + 12.0 / 8).epsilon(0.01));
  SearchOptions priced;
  priced.memory_price = 1.0;
  PerLayer gathered_again = per_layer(gpt_layer(), sizes, "tp=8", priced);
  CHECK(phi_of(gathered_again.price, sizes, 8) == doctest::Approx(10));
  CHECK((gathered_again.memory - weights) / unit == doctest::Approx(16.0 / 8).epsilon(0.01));
}

TEST_CASE("search: a parallel block of attention and MLP costs 4 Phi") {
  Sizes sizes;
  for (int64_t n : {2, 8}) {
    PerLayer found = per_layer(parallel_layer(), sizes, tp(n).c_str(), whole_tokens());
    CHECK(phi_of(found.price, sizes, static_cast<double>(n)) == doctest::Approx(4));
  }
}

TEST_CASE("search: two-dimensional tensor parallelism on sub-axes") {
  Sizes sizes;
  sizes.hidden = 8192;
  sizes.heads = 256;
  sizes.ffn = 32768;
  SearchOptions options = whole_tokens();
  options.sub_axes = {2, 2};
  PerLayer found = per_layer(gpt_layer(), sizes, "tp=4", options);
  CHECK(phi_of(found.price, sizes, 4) == doctest::Approx(22.0 / 3));
}

TEST_CASE("search: data parallelism is an all-reduce's bytes in ZeRO's memory; a price of memory brings ZeRO 3") {
  Sizes sizes;
  sizes.batch = 8;
  double weights = 12 * 4096.0 * 4096.0;
  PerLayer found = per_layer(gpt_layer(), sizes, "dp=4", {});
  CHECK(found.price == doctest::Approx(2 * weights * 4 * 3 / 4));
  // Weights whole, gradients and two moments split four ways.
  bool states_split = true;
  for (const PlanTensor& tensor : found.five.plan.tensors) {
    if (tensor.role == TensorRole::kState) states_split = states_split && !tensor.sharding.is_replicated();
  }
  CHECK(states_split);
  SearchOptions priced;
  priced.memory_price = 3;
  PerLayer third = per_layer(gpt_layer(), sizes, "dp=4", priced);
  // The frozen gains too are split and gathered.
  CHECK(third.price == doctest::Approx(3 * weights * 4 * 3 / 4).epsilon(1e-4));
  CHECK(found.memory - third.memory == doctest::Approx(weights * 4 * 3 / 4).epsilon(1e-3));
}

TEST_CASE("search: 8 kv heads on 16 ranks: no more bytes than sharing in pairs, keys and values never gathered") {
  Sizes sizes;
  sizes.hidden = 8192;
  sizes.heads = 64;
  sizes.kv_heads = 8;
  sizes.ffn = 28672;
  sizes.seq = 4096;
  std::string text = model_text(llama_layer(), sizes, 3);
  MeshCase megatron{"megatron", *parse_mesh("tp=16")};
  Report shared = make_report(compile_text(text, "figures.json", {}, megatron).plan);
  int pairs = 0;
  for (const CollectiveRow& row : shared.collectives) pairs += row.group_size == 2 ? 1 : 0;
  CHECK(pairs == 2 * 3);
  MeshCase searched{"search", *parse_mesh("tp=16"), false, 0, "search", {}};
  CompileResult found = compile_text(text, "figures.json", {}, searched);
  Report report = make_report(found.plan);
  CHECK(report.step.received_bytes <= shared.step.received_bytes);
  for (const CollectiveRow& row : report.collectives) {
    bool is_key_or_value = row.layer.ends_with(".k") || row.layer.ends_with(".v") || row.layer.ends_with(".k_rope");
    if (row.phase == Phase::kForward) CHECK_FALSE(is_key_or_value);
  }
}

}  // namespace tpc::testing
