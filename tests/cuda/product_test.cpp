// The products of golden plans, with what they do on the way, against their ops' references in double: every form that
// a rank of a small plan asks cuBLASLt for.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/lowering/rank_steps.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/host_tensor.h"
#include "tests/cuda/training_devices.h"
#include "tests/support/global_tensor.h"
#include "tests/support/program.h"
#include "tests/support/rank_step.h"

namespace tpc::testing {
namespace {

/// Sums of some hundred floats, against sums in double.
constexpr double kF32Tolerance = 5e-5;
/// Roundings of what is stored on the way, and of the result.
constexpr double kBF16Tolerance = 0x1p-6;

using Tensor = tpc::LocalTensor;

std::string form_of(const std::vector<LocalStep>& steps) {
  std::string text;
  auto add = [&](const Tensor& tensor) {
    text += fmt::format(" {}", to_string(TensorType{tensor.type.dtype, tensor.region.extents()}));
  };
  for (const LocalStep& step : steps) {
    text += op_name(step.op);
    for (const auto& [name, value] : step.attributes.items()) text += fmt::format(" {}={}", name, to_string(value));
    for (const Tensor& operand : step.operands) add(operand);
    text += " ->";
    for (const Tensor& result : step.results) add(result);
    text += "; ";
  }
  return text;
}

/// Tensors by where they lie: of those that lie over each other, the latest.
struct Memory {
  std::map<void*, Part> parts;

  Part& at(const Tensor& tensor) { return parts.at(tensor.data); }
  bool holds(const Tensor& tensor) const { return parts.contains(tensor.data); }
  void put(const Tensor& tensor, std::vector<double> values) {
    parts[tensor.data] = {tensor.type, tensor.region, std::move(values)};
  }
};

HostTensor host_tensor(const Tensor& tensor) { return HostTensor::of({tensor.type.dtype, tensor.region.extents()}); }

/// Random values for what the steps read and none of them makes; they are brought to the device.
Memory fill_operands(const std::vector<LocalStep>& steps, cuda::CudaBackend& backend) {
  Memory memory;
  std::set<void*> made;
  for (const LocalStep& step : steps) {
    for (const Tensor& operand : step.operands) {
      if (made.contains(operand.data) || memory.holds(operand)) continue;
      HostTensor host = host_tensor(operand);
      GlobalTensor random = random_uniform_tensor(host.type, memory.parts.size(), "product", -1, 1);
      std::vector<double> values;
      for (size_t i = 0; i < random.data.size(); ++i) {
        auto value = static_cast<float>(random.data[i]);
        if (host.type.dtype == DType::kBF16) {
          host.bf16[i] = static_cast<BFloat16>(value);
          value = static_cast<float>(host.bf16[i]);
        } else {
          host.f32[i] = value;
        }
        values.push_back(static_cast<double>(value));
      }
      backend.upload(operand.data, host.data(), static_cast<int64_t>(host.size()) * byte_size(host.type.dtype));
      memory.put(operand, std::move(values));
    }
    for (const Tensor& result : step.results) made.insert(result.data);
  }
  backend.wait();
  return memory;
}

std::vector<double> download(const Tensor& tensor, cuda::CudaBackend& backend) {
  HostTensor host = host_tensor(tensor);
  backend.download(host.data(), tensor.data, static_cast<int64_t>(host.size()) * byte_size(host.type.dtype));
  backend.wait();
  std::vector<double> values;
  for (size_t i = 0; i < host.size(); ++i) {
    values.push_back(host.type.dtype == DType::kBF16 ? static_cast<double>(static_cast<float>(host.bf16[i]))
                                                     : static_cast<double>(host.f32[i]));
  }
  return values;
}

void check_product(const std::vector<LocalStep>& steps, cuda::CudaBackend& backend) {
  Memory memory = fill_operands(steps, backend);
  std::unique_ptr<Kernel> kernel = backend.prepare_together(steps);
  backend.begin_step({});
  kernel->run({});
  backend.wait();
  std::map<void*, Tensor> results;
  for (const LocalStep& step : steps) {
    RankStep reference{.op = step.op,
                       .attributes = step.attributes,
                       .operands = {},
                       .results = {},
                       .is_first_in_group = step.is_first_in_group};
    for (const Tensor& operand : step.operands) {
      reference.operands.push_back({operand.type, operand.region, memory.at(operand).data});
    }
    for (const Tensor& result : step.results) reference.results.push_back({result.type, result.region, {}});
    std::vector<std::vector<double>> values = run_reference(reference);
    for (size_t i = 0; i < values.size(); ++i) {
      memory.put(step.results[i], std::move(values[i]));
      results[step.results[i].data] = step.results[i];
    }
  }
  for (const auto& [data, result] : results) {
    double tolerance = result.type.dtype == DType::kBF16 ? kBF16Tolerance : kF32Tolerance;
    double largest = difference({download(result, backend)}, {memory.at(result).data});
    CHECK_MESSAGE(largest <= tolerance, "differs by ", largest);
  }
}

/// Every product of the plan, each form once. Returns how many forms there were.
size_t check_products(const Plan& plan, const cuda::MatmulOptions& options) {
  std::set<std::string> seen;
  for (int64_t rank = 0; rank < plan.mesh.world_size(); ++rank) {
    cuda::CudaBackend backend({.matmul = options});
    std::unique_ptr<DeviceMemory> arena = backend.allocate(plan.arena_bytes, /*host_visible=*/false);
    RankUnits lowered = lower_rank(plan, rank_plan(plan, rank), arena->data(),
                                   [&](std::span<const LocalStep> steps) { return backend.num_together(steps); });
    for (const RankUnit& unit : lowered.units) {
      if (unit.kernel.empty() || unit.kernel[0].op != OpKind::kContract) continue;
      std::string form = form_of(unit.kernel);
      if (!seen.insert(form).second) continue;
      CAPTURE(form);
      check_product(unit.kernel, backend);
    }
  }
  return seen.size();
}

struct GoldenPlan {
  const char* model;
  const char* mesh;
};
// Those of tests/golden/plans.
constexpr GoldenPlan kPlans[] = {
    {"small_gpt", "tp=2"}, {"small_gpt", "tp=3"}, {"tiny_gpt", "tp=2"}, {"llama_tiny", "dp=2,tp=8"}, {"mlp", "tp=2"}};

void check_golden_plans(std::optional<Precision> precision, const std::map<std::string, int64_t>& dims = {},
                        const cuda::MatmulOptions& options = {}) {
  if (!has_devices(1)) return;
  for (const GoldenPlan& golden : kPlans) {
    MeshCase mesh{golden.mesh, *parse_mesh(golden.mesh), false};
    mesh.precision = precision;
    CAPTURE(golden.model);
    CAPTURE(golden.mesh);
    CHECK(check_products(compile_model(golden.model, dims, mesh).plan, options) > 0);
  }
}

TEST_CASE("products of golden plans in f32 are those of their references") { check_golden_plans({}); }

TEST_CASE("products of golden plans in bf16 are those of their references") { check_golden_plans(kBF16); }

TEST_CASE("tuned products of golden plans are those of their references") {
  check_golden_plans({}, {}, {.tf32 = false, .tune = true});
}

}  // namespace
}  // namespace tpc::testing
