#include "runtime/check/model_step.h"

#include <algorithm>
#include <cmath>

#include "compiler/core/check.h"
#include "compiler/core/philox.h"
#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

// Every element moves by one rounding up or down, as bit i of the stream says. `Wide` holds the product.
template <class Wide, class Float>
void add_rounding(std::span<Float> values, PhiloxKey key, uint64_t stream, double epsilon) {
  constexpr size_t kBits = 32;
  auto more = static_cast<Wide>(1 + epsilon);
  auto less = static_cast<Wide>(1 - epsilon);
  uint32_t word = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % kBits == 0) word = random_word(key, stream, i / kBits);
    bool is_more = (word >> (i % kBits) & 1U) != 0;
    values[i] = static_cast<Float>(static_cast<Wide>(values[i]) * (is_more ? more : less));
  }
}

}  // namespace

bool is_learned(const PlanTensor& tensor) {
  return tensor.role == TensorRole::kParameter || tensor.role == TensorRole::kState;
}

int64_t count_terms(const Plan& plan, const PlanStep& step, size_t result) {
  const OpDef& op = op_def(step.op);
  if (op.sharding_rule == nullptr) return 1;
  auto types = [&](const std::vector<int>& tensors) {
    std::vector<TensorType> found;
    for (int t : tensors) found.push_back(plan.tensors[static_cast<size_t>(t)].type);
    return found;
  };
  std::vector<TensorType> operands = types(step.operands), results = types(step.results);
  ShardingRule rule = op.sharding_rule({step.attributes, operands, results});
  int64_t most = 1;
  for (size_t operand = 0; operand < operands.size(); ++operand) {
    int64_t terms = 1;
    for (size_t dim = 0; dim < operands[operand].shape.size(); ++dim) {
      bool is_index_of_result = std::any_of(rule.factors.begin(), rule.factors.end(), [&](const Factor& factor) {
        const auto& use = factor.operands[operand];
        return use && use->dim == static_cast<int64_t>(dim) && factor.results[result].has_value();
      });
      if (!is_index_of_result) terms *= operands[operand].shape[dim];
    }
    most = std::max(most, terms);
  }
  return most;
}

ModelStep::ModelStep(ObservedRun& exact, ObservedRun& perturbed) : exact_(exact), perturbed_(perturbed) {
  size_t size = plan().tensors.size();
  TPC_CHECK(plan().mesh.world_size() == 1 && perturbed.plan().tensors.size() == size, "a step of one rank, twice");
  num_terms_.assign(size, 1);
  for (const PlanStep& step : plan().steps) {
    for (size_t i = 0; i < step.results.size(); ++i) {
      num_terms_[static_cast<size_t>(step.results[i])] = count_terms(plan(), step, i);
    }
  }
  values_.resize(size);
  noise_.resize(size);
  own_part_.assign(size, 1);
  magnitude_.resize(size);
}

void ModelStep::run(uint64_t step, const Batch& batch, const StepObserver& progress) {
  step_ = step;
  auto for_each_of = [&](auto has_role, const auto& action) {
    for (int t = 0; t < static_cast<int>(plan().tensors.size()); ++t) {
      if (has_role(plan().tensors[static_cast<size_t>(t)])) action(t);
    }
  };
  for_each_of(is_learned, [&](int t) { keep(t); });
  exact_.run_step(batch, [&](int64_t rank, int index) {
    for (int result : plan().steps[static_cast<size_t>(index)].results) keep(result);
    progress(rank, index);
  });
  auto is_input = [](const PlanTensor& t) { return t.role == TensorRole::kInput; };
  for_each_of(is_input, [&](int t) { keep(t); });

  // Inputs, too, off by a rounding of the run's own numbers, which a batch may not hold: they are set, not loaded.
  for_each_of(is_input, [&](int t) { perturb(t); });
  for_each_of(is_learned, [&](int t) { perturb(t); });
  perturbed_.run_step({}, [&](int64_t, int index) { measure(index); });
}

void ModelStep::keep(int tensor) {
  Values& value = values_[static_cast<size_t>(tensor)] = at_rest(tensor);
  magnitude_[static_cast<size_t>(tensor)] = magnitude(value);
}

void ModelStep::measure(int step) {
  double epsilon = exact_.epsilon(DType::kF32);
  for (int operand : plan().steps[static_cast<size_t>(step)].operands) {
    epsilon = std::max(epsilon, exact_.epsilon(plan().tensors[static_cast<size_t>(operand)].type.dtype));
  }
  const double scale = exact_.epsilon(DType::kF32) / epsilon;
  for (int result : plan().steps[static_cast<size_t>(step)].results) {
    const Shape& shape = plan().tensors[static_cast<size_t>(result)].type.shape;
    double noise = compare_part(perturbed_.part(0, result), value(result), shape, 0).largest;
    own_part_[static_cast<size_t>(result)] = scale;
    // Where rounding alone overflows, nothing may be tolerated that does not.
    noise_[static_cast<size_t>(result)] = std::isfinite(noise) ? noise : 0;
    perturb(result);
  }
}

void ModelStep::perturb(int tensor) {
  const PlanTensor& t = plan().tensors[static_cast<size_t>(tensor)];
  RankPart part = perturbed_.part(0, tensor);
  load_part(value(tensor), t.type.shape, part);
  if (!is_float(t.type.dtype)) return;
  PhiloxKey key = philox_key(step_, "check/" + t.name);
  std::visit(
      [&](auto elements) {
        using Element = typename decltype(elements)::element_type;
        double epsilon = exact_.epsilon(t.type.dtype);
        if constexpr (std::is_floating_point_v<Element>) {
          add_rounding<Element>(elements, key, step_, epsilon);
        } else if constexpr (std::is_same_v<Element, BFloat16>) {
          add_rounding<float>(elements, key, step_, epsilon);
        }
      },
      part.elements);
}

double ModelStep::tolerance(int tensor, const Way& way) const {
  auto t = static_cast<size_t>(tensor);
  double growth = 4 * std::sqrt(static_cast<double>(way.num_terms));
  double largest = std::max(magnitude_[t], way.scale);
  double noise = way.has_rounded_parts ? noise_[t] : noise_[t] * own_part_[t];
  // Rounded once by itself; or as often as parts of it were on their way.
  double roundings = plan().tensors[t].type.dtype == DType::kBF16 ? 2 : 0;
  if (way.has_rounded_parts) roundings = 4;
  double rounded = roundings * exact_.epsilon(DType::kBF16) * largest;
  return growth * (noise + exact_.epsilon(DType::kF32) * largest) + rounded;
}

double ModelStep::bytes(const Plan& plan, int64_t element) {
  double elements = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    elements += static_cast<double>(num_elements(tensor.type.shape));
  }
  return 2 * run_bytes(plan, element) + elements * static_cast<double>(element);
}

int64_t smallest_element(const Plan& plan) {
  int64_t smallest = byte_size(DType::kF32);
  for (const PlanTensor& tensor : plan.tensors) smallest = std::min(smallest, byte_size(tensor.type.dtype));
  return smallest;
}

double run_bytes(const Plan& plan, int64_t element) {
  auto bytes = static_cast<double>(plan.arena_bytes);
  bool is_double = element == static_cast<int64_t>(sizeof(double));
  return is_double ? bytes / static_cast<double>(smallest_element(plan)) * static_cast<double>(element) : bytes;
}

}  // namespace tpc
