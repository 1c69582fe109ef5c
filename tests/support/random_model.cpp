#include "tests/support/random_model.h"

#include <fmt/format.h>

#include <random>
#include <vector>

namespace tpc::testing {
namespace {

class ModelWriter {
 public:
  explicit ModelWriter(uint64_t seed) : random_(seed) {}

  std::string write() {
    batch_ = between(2, 5);
    seq_ = between(3, 7);
    vocab_ = between(7, 23);
    hidden_ = 2 * between(3, 8);
    std::string stream = embed();
    int blocks = static_cast<int>(between(1, 3));
    for (int i = 0; i < blocks; ++i) stream = block(stream);
    head(stream);
    return fmt::format(
        R"({{"format": "tpc-model", "version": 1, "name": "random",
"dims": {{"batch": {}, "seq": {}, "vocab": {}, "hidden": {}}},
"inputs": {{"tokens": {{"shape": ["batch", "seq"], "dtype": "int32"}}, "targets": {{"shape": ["batch", "seq"], "dtype": "int32"}}}},
"layers": [
{}],
"loss": "loss",
"optimizer": {}}})",
        batch_, seq_, vocab_, hidden_, layers_, optimizer());
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  T pick(std::vector<T> choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }

  std::string optimizer() {
    std::string clip = chance(50) ? R"(, "clip_norm": 0.5)" : "";
    if (chance(60)) return R"({"type": "adamw", "lr": 0.001)" + clip + "}";
    return fmt::format(R"({{"type": "sgd", "lr": 0.01, "momentum": {}{}}})", chance(50) ? "0.9" : "0.0", clip);
  }

  std::string layer(const std::string& op, const std::string& rest) {
    std::string name = fmt::format("l{}", count_++);
    layers_ += fmt::format("{}{{\"name\": \"{}\", \"op\": \"{}\", {}}}", layers_.empty() ? "" : ",\n", name, op, rest);
    return name;
  }
  std::string on(const std::string& op, const std::string& input, const std::string& rest = "") {
    return layer(op, fmt::format("\"input\": \"{}\"{}", input, rest));
  }

  std::string embed() {
    std::string table = on("embedding", "tokens", R"(, "rows": "vocab", "out": ["hidden"])");
    table_ = table;
    if (chance(50)) return on("position_embedding", table, R"(, "rows": 9)");
    return table;
  }

  std::string norm(const std::string& input) {
    return chance(80) ? on(pick<std::string>({"layer_norm", "rms_norm"}), input) : input;
  }

  std::string bias() { return chance(50) ? ", \"bias\": true" : ""; }
  std::string frozen() { return chance(10) ? ", \"trainable\": false" : ""; }

  std::string block(const std::string& stream) {
    std::string inner = norm(stream);
    std::string out;
    switch (between(0, 3)) {
      case 0:
        out = attention_packed(inner);
        break;
      case 1:
        out = attention_grouped(inner);
        break;
      case 2:
        out = mlp(inner);
        break;
      default:
        out = gated(inner);
        break;
    }
    if (chance(30)) out = on("dropout", out, R"(, "rate": 0.2)");
    if (chance(85)) return layer("add", fmt::format("\"inputs\": [\"{}\", \"{}\"]", stream, out));
    return out;
  }

  std::string attention_packed(const std::string& input) {
    int64_t heads = between(1, 8);
    int64_t head_dim = 2 * between(1, 3);
    std::string qkv = on("linear", input, fmt::format(", \"out\": [3, {}, {}]{}{}", heads, head_dim, bias(), frozen()));
    std::string attn = on("attention", qkv, chance(60) ? ", \"causal\": true" : "");
    return on("linear", attn,
              fmt::format(", \"contract\": [{}, {}], \"out\": [\"hidden\"]{}", heads, head_dim, bias()));
  }

  std::string attention_grouped(const std::string& input) {
    int64_t kv_heads = between(1, 4);
    int64_t heads = kv_heads * between(1, 3);
    int64_t head_dim = 2 * between(1, 3);
    std::string q = on("linear", input, fmt::format(", \"out\": [{}, {}]{}", heads, head_dim, bias()));
    std::string k = on("linear", input, fmt::format(", \"out\": [{}, {}]{}", kv_heads, head_dim, bias()));
    std::string v = on("linear", input, fmt::format(", \"out\": [{}, {}]{}", kv_heads, head_dim, frozen()));
    if (chance(50)) {
      q = on("rope", q);
      k = on("rope", k);
    }
    std::string attn = layer("attention", fmt::format("\"inputs\": [\"{}\", \"{}\", \"{}\"]{}", q, k, v,
                                                      chance(60) ? ", \"causal\": true" : ""));
    return on("linear", attn,
              fmt::format(", \"contract\": [{}, {}], \"out\": [\"hidden\"]{}", heads, head_dim, bias()));
  }

  std::string mlp(const std::string& input) {
    int64_t ffn = between(5, 19);
    std::string up = on("linear", input, fmt::format(", \"out\": [{}]{}", ffn, bias()));
    std::string act = on(pick<std::string>({"gelu", "silu", "relu", "gelu_tanh"}), up);
    if (chance(20)) act = on("scale", act, ", \"factor\": 0.5");
    return on("linear", act, fmt::format(", \"out\": [\"hidden\"]{}{}", bias(), frozen()));
  }

  std::string gated(const std::string& input) {
    int64_t ffn = between(5, 19);
    std::string gate = on("linear", input, fmt::format(", \"out\": [{}]", ffn));
    std::string up = on("linear", input, fmt::format(", \"out\": [{}]", ffn));
    std::string act = layer("gated", fmt::format("\"inputs\": [\"{}\", \"{}\"], \"activation\": \"silu\"", gate, up));
    return on("linear", act, ", \"out\": [\"hidden\"]");
  }

  void head(const std::string& stream) {
    std::string last = norm(stream);
    std::string tie = chance(50) ? fmt::format(", \"weight\": \"{}.weight\"", table_) : "";
    std::string logits = on("linear", last, ", \"out\": [\"vocab\"]" + tie);
    layers_ += fmt::format(
        ",\n{{\"name\": \"loss\", \"op\": \"cross_entropy\", \"input\": \"{}\", \"targets\": \"targets\"}}", logits);
  }

  std::mt19937_64 random_;
  int64_t batch_ = 0;
  int64_t seq_ = 0;
  int64_t vocab_ = 0;
  int64_t hidden_ = 0;
  int count_ = 0;
  std::string table_;
  std::string layers_;
};

}  // namespace

std::string random_model(uint64_t seed) { return ModelWriter(seed).write(); }

}  // namespace tpc::testing
