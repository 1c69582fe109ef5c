/// Whole programs for tests: a model file compiled for a mesh, run by the reference executor in double.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "passes/pipeline.h"
#include "tests/support/reference_executor.h"

namespace tpc::testing {

/// How a program is sharded.
struct MeshCase {
  std::string name;
  DeviceMesh mesh;
  bool sequence_parallel = false;
  int zero_stage = 0;
  std::string strategy = "megatron";
  SearchOptions search = {};
  int64_t memory_limit = 0;
  /// In place of the model's.
  std::optional<Precision> precision = {};
};

/// tp 1 to 8, dp, both, sequence-parallel and ZeRO ones.
std::vector<MeshCase> megatron_cases();
/// The same meshes searched, with and without a price of memory (which brings ZeRO 3, gathering again and splits of
/// everything), with free axes and sub-axes.
std::vector<MeshCase> search_cases();
/// Both.
std::vector<MeshCase> mesh_cases();

/// Compiles a model given as text; `file` is its name in messages.
CompileResult compile_text(const std::string& text, const std::string& file, const std::map<std::string, int64_t>& dims,
                           const MeshCase& mesh);
/// The one-rank step of a model in models/, differentiated: what its plans must compute.
Graph model_step(const std::string& model, const std::map<std::string, int64_t>& dims,
                 std::optional<Precision> precision = {});

/// bf16 compute, with sums across ranks in f32 and in bf16.
inline constexpr Precision kBF16{DType::kBF16, DType::kF32};
inline constexpr Precision kAllBF16{DType::kBF16, DType::kBF16};

/// Compiles models/<model>.json with sizes overridden.
CompileResult compile_model(const std::string& model, const std::map<std::string, int64_t>& dims, const MeshCase& mesh);

/// Whether check_plan has nothing against the plan: what is loaded must be sound before it is proved.
bool is_sound(const Plan& plan);

/// Everything a training run leaves behind.
struct Training {
  std::vector<double> losses;
  /// Gradients (of the last step), weights and optimizer state, by name.
  std::map<std::string, GlobalTensor> tensors;
};

/// Trains `steps` steps on a fixed batch. Ids stay below the rows of the table or logits that they index; labels of the
/// first `ignored_rows` rows of the batch, and of every third position elsewhere, are ignored when `ignore` is set.
Training train_reference(const Graph& graph, int steps, bool ignore);

/// The first tensor or loss that differs by more than `tolerance` (relative), or "".
std::string first_difference(const Training& wanted, const Training& found, double tolerance);

}  // namespace tpc::testing
