// The tutorial model against PyTorch (tests/data/small_gpt): logits, loss, every gradient, 50 optimizer steps, at any
// tp.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "compiler/core/check.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/trainer.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

/// Limits of tests/data/README.md.
constexpr double kLogitsLimit = 1e-5;
constexpr double kGradientLimit = 3e-5;
constexpr double kLossLimit = 5e-5;
constexpr double kFinalLimit = 5e-5;

struct Oracle {
  std::vector<double> losses;
  std::map<std::string, HostTensor> tensors;
};

std::string read_file(const std::string& name) {
  std::string path = std::string(TPC_SOURCE_DIR) + "/tests/data/small_gpt/" + name;
  std::ifstream file(path, std::ios::binary);
  TPC_CHECK(file.good(), "cannot read {}", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Oracle load_oracle() {
  nlohmann::json json = nlohmann::json::parse(read_file("oracle.json"));
  std::string blob = read_file("tensors.bin");
  Oracle oracle;
  oracle.losses = json["losses"].get<std::vector<double>>();
  for (const nlohmann::json& item : json["tensors"]) {
    DType dtype = item["dtype"] == "f32" ? DType::kF32 : DType::kI32;
    HostTensor tensor = HostTensor::of({dtype, item["shape"].get<Shape>()});
    std::memcpy(tensor.data(), blob.data() + item["offset"].get<size_t>(), tensor.size() * 4);
    oracle.tensors[item["name"].get<std::string>()] = std::move(tensor);
  }
  return oracle;
}

/// PyTorch's names for ours.
std::map<std::string, std::string> parameter_names() {
  std::map<std::string, std::string> names{
      {"embed.weight", "embed.weight"}, {"ln_f.weight", "ln_f.weight"}, {"ln_f.bias", "ln_f.bias"}};
  for (int layer = 0; layer < 2; ++layer) {
    std::string ours = fmt::format("block{}.", layer);
    std::string theirs = fmt::format("layers.{}.", layer);
    names[ours + "qkv.weight"] = theirs + "attn.qkv.weight";
    names[ours + "proj.weight"] = theirs + "attn.out_proj.weight";
    names[ours + "fc1.weight"] = theirs + "mlp.fc1.weight";
    names[ours + "fc2.weight"] = theirs + "mlp.fc2.weight";
    for (const char* norm : {"ln1", "ln2"}) {
      for (const char* part : {".weight", ".bias"}) names[ours + norm + part] = theirs + norm + part;
    }
  }
  return names;
}

/// Largest difference over the largest element of `wanted`.
double difference(const HostTensor& found, const HostTensor& wanted) {
  TPC_CHECK(found.f32.size() == wanted.f32.size(), "{} and {} elements", found.f32.size(), wanted.f32.size());
  double largest = 0;
  double worst = 0;
  for (size_t i = 0; i < wanted.f32.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(wanted.f32[i])));
    worst = std::max(worst, std::abs(static_cast<double>(found.f32[i]) - static_cast<double>(wanted.f32[i])));
  }
  return worst / largest;
}

double absolute_difference(const HostTensor& found, const HostTensor& wanted) {
  double worst = 0;
  for (size_t i = 0; i < wanted.f32.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found.f32[i]) - static_cast<double>(wanted.f32[i])));
  }
  return worst;
}

HostTensor with_shape(HostTensor tensor, const TensorType& type) {
  tensor.type = type;
  return tensor;
}

void check_against_oracle(const MeshCase& mesh) {
  CAPTURE(mesh.name);
  static const Oracle oracle = load_oracle();
  TrainerOptions options;
  options.threads_per_rank = 1;
  Trainer trainer(compile_model("small_gpt", {}, mesh).plan, make_cpu_backend, options);
  std::map<std::string, std::string> names = parameter_names();
  for (const auto& [ours, theirs] : names) {
    TensorType type = trainer.get_tensor(ours).type;
    trainer.set_tensor(ours, with_shape(oracle.tensors.at("weight/" + theirs), type));
    trainer.keep("grad." + ours);
  }
  trainer.keep("head");
  Batch batch{{"tokens", oracle.tensors.at("input_ids")}, {"targets", oracle.tensors.at("labels")}};
  for (size_t step = 0; step < 51; ++step) {
    if (step == 50) {
      CHECK(absolute_difference(trainer.get_tensor("embed.weight"), oracle.tensors.at("final/embed.weight")) <
            kFinalLimit);
      CHECK(absolute_difference(trainer.get_tensor("block0.qkv.weight"),
                                oracle.tensors.at("final/layers.0.attn.qkv.weight")) < kFinalLimit);
      CHECK(absolute_difference(trainer.get_tensor("ln_f.weight"), oracle.tensors.at("final/ln_f.weight")) <
            kFinalLimit);
    }
    double loss = static_cast<double>(trainer.train_step(batch).loss);
    CHECK(std::abs(loss - oracle.losses[step]) < kLossLimit);
    if (step != 0) continue;
    CHECK(difference(trainer.get_tensor("head"), oracle.tensors.at("logits")) < kLogitsLimit);
    for (const auto& [ours, theirs] : names) {
      CAPTURE(ours);
      CHECK(difference(trainer.get_tensor("grad." + ours), oracle.tensors.at("grad/" + theirs)) < kGradientLimit);
    }
  }
  trainer.check_traffic();
}

}  // namespace

TEST_CASE("small_gpt gives PyTorch's numbers on every mesh") {
  for (const MeshCase& mesh : mesh_cases()) check_against_oracle(mesh);
}

}  // namespace tpc::testing
