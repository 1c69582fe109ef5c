// What ops compute in the field stands for them: every op has a function, which sees all that the real one sees, is
// linear where the verifier takes it to be, and divides over ranks as the op's rule lets it be divided.
#include "compiler/verify/numeric/op_function.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "compiler/sharding/sharding_rule.h"
#include "compiler/verify/numeric/index_loop.h"
#include "compiler/verify/op_meaning.h"
#include "tests/support/op_samples.h"

namespace tpc::testing {
namespace {

using verify::Element;
using verify::FieldTensor;

constexpr uint64_t kSeed = 5;

struct FieldValue {
  TensorType type;
  Region region;
  std::vector<Element> data;
};

FieldTensor view(FieldValue& value) { return {"x", value.type.shape, value.region, value.data.data()}; }

FieldValue empty_value(const TensorType& type, const Region& region) {
  // What a function leaves out is seen.
  constexpr Element kUnset = 987654321;
  return {type, region, std::vector<Element>(static_cast<size_t>(region.num_elements()), kUnset)};
}

/// Any elements; of integers those of the sample.
std::vector<FieldValue> field_values(const OpSample& sample, uint64_t seed) {
  std::vector<GlobalTensor> samples = sample.values();
  std::vector<FieldValue> values;
  for (const GlobalTensor& tensor : samples) {
    FieldValue value{tensor.type, whole_region(tensor.type.shape), {}};
    for (double x : tensor.data) {
      seed = verify::mixed(seed);
      value.data.push_back(tensor.type.dtype == DType::kI32 ? verify::of_integer(static_cast<int64_t>(x))
                                                            : verify::element_of_hash(seed));
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::vector<FieldValue> run(const OpSample& sample, const Attributes& attributes, std::vector<FieldValue>& operands,
                            const std::vector<Region>& regions) {
  TypedOp op = sample.typed();
  std::vector<FieldValue> results;
  for (size_t i = 0; i < op.results.size(); ++i) results.push_back(empty_value(op.results[i], regions[i]));
  std::vector<FieldTensor> in;
  std::vector<FieldTensor> out;
  for (FieldValue& value : operands) in.push_back(view(value));
  for (FieldValue& value : results) out.push_back(view(value));
  verify::op_function(sample.op)({attributes, in, out, kSeed, true});
  return results;
}

std::vector<FieldValue> run_whole(const OpSample& sample, std::vector<FieldValue>& operands,
                                  const Attributes* attributes = nullptr) {
  std::vector<Region> regions;
  for (const TensorType& type : sample.typed().results) regions.push_back(whole_region(type.shape));
  return run(sample, attributes == nullptr ? sample.attributes : *attributes, operands, regions);
}

bool is_same(const std::vector<FieldValue>& a, const std::vector<FieldValue>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const FieldValue& x, const FieldValue& y) { return x.data == y.data; });
}

template <class Visit>
void for_each_sample(Visit&& visit) {
  for (const OpSample& sample : op_samples()) {
    if (verify::op_function(sample.op) == nullptr) continue;
    CAPTURE(sample.text());
    visit(sample);
  }
}

/// A plan of the sample's one step, for the verifier's table.
Plan plan_of(const OpSample& sample) {
  TypedOp op = sample.typed();
  Plan plan;
  plan.steps.emplace_back();
  PlanStep& step = plan.steps.back();
  step.op = sample.op;
  step.attributes = sample.attributes;
  auto add = [&](const TensorType& type, std::vector<int>& list) {
    list.push_back(static_cast<int>(plan.tensors.size()));
    plan.tensors.emplace_back();
    plan.tensors.back().type = type;
  };
  for (const TensorType& type : op.operands) add(type, step.operands);
  for (const TensorType& type : op.results) add(type, step.results);
  return plan;
}

/// The part of `value` at `region`, times `factor`.
FieldValue part_of(FieldValue& value, const Region& region) {
  FieldValue part = empty_value(value.type, region);
  std::string letters = verify::dim_letters(region.dims.size());
  verify::IndexLoop loop;
  loop.within(letters, region);
  loop.follow(view(value), letters);
  loop.follow(view(part), letters);
  loop.run([&](const int64_t* at, const int64_t*) {
    part.data[static_cast<size_t>(at[1])] = value.data[static_cast<size_t>(at[0])];
  });
  return part;
}

/// Of a Partial operand, the share of rank `index` of `parts`: any elements that sum to the value, or whose maximum it
/// is.
void take_share(FieldValue& part, ReduceOp reduce, int64_t index, int64_t parts) {
  for (size_t i = 0; i < part.data.size(); ++i) {
    if (reduce == ReduceOp::kMax) {
      if (static_cast<int64_t>(i) % parts != index) part.data[i] /= 2;
      continue;
    }
    Element others = 0;
    for (int64_t other = 1; other < parts; ++other) {
      Element share = verify::element_of_hash(verify::mixed(i * 7 + static_cast<uint64_t>(other)));
      if (other == index) part.data[i] = share;
      others = verify::add(others, share);
    }
    if (index == 0) part.data[i] = verify::subtract(part.data[i], others);
  }
}

/// Runs the sample on the ranks of a mesh of one axis, and holds what they make against `whole`.
void check_sharded(const OpSample& sample, const NodeSharding& sharding, const DeviceMesh& mesh,
                   std::vector<FieldValue>& operands, std::vector<FieldValue>& whole) {
  int64_t parts = mesh.world_size();
  std::vector<FieldValue> sums;
  for (int64_t rank = 0; rank < parts; ++rank) {
    const std::vector<int64_t> coordinate{rank};
    std::vector<FieldValue> own;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Placement& placement = sharding.operands[i].placements[0];
      own.push_back(part_of(operands[i], local_region(operands[i].type.shape, sharding.operands[i], mesh, coordinate)));
      if (placement.is_partial()) take_share(own.back(), placement.reduce, rank, parts);
    }
    std::vector<Region> regions;
    for (size_t i = 0; i < whole.size(); ++i)
      regions.push_back(local_region(whole[i].type.shape, sharding.results[i], mesh, coordinate));
    std::vector<FieldValue> made = run(sample, sample.attributes, own, regions);
    for (size_t i = 0; i < made.size(); ++i) {
      const Placement& placement = sharding.results[i].placements[0];
      if (!placement.is_partial()) {
        CHECK(made[i].data == part_of(whole[i], made[i].region).data);
        continue;
      }
      if (rank == 0) {
        sums.resize(made.size());
        sums[i] = made[i];
      } else {
        for (size_t k = 0; k < made[i].data.size(); ++k) {
          Element& sum = sums[i].data[k];
          sum = placement.reduce == ReduceOp::kMax ? std::max(sum, made[i].data[k]) : verify::add(sum, made[i].data[k]);
        }
      }
      if (rank == parts - 1) CHECK(sums[i].data == whole[i].data);
    }
  }
}

}  // namespace

TEST_CASE("every op that computes on one rank has a function in the field") {
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK_EQ(verify::op_function(op->kind) != nullptr, op->reference != nullptr);
  }
}

TEST_CASE("field functions write every element and see every operand") {
  for_each_sample([](const OpSample& sample) {
    std::vector<FieldValue> operands = field_values(sample, 1);
    std::vector<FieldValue> results = run_whole(sample, operands);
    for (const FieldValue& result : results)
      CHECK(std::find(result.data.begin(), result.data.end(), Element{987654321}) == result.data.end());
    for (FieldValue& operand : operands) {
      if (operand.type.dtype == DType::kI32 || operand.data.empty()) continue;
      size_t num_seen = 0;
      for (Element& element : operand.data) {
        Element before = element;
        element = verify::add(element, 12345);
        num_seen += is_same(results, run_whole(sample, operands)) ? 0 : 1;
        element = before;
      }
      CHECK_GT(num_seen, 0);
      // Rows that no id names, labels that are ignored, what a slice leaves and all but the maximum do not count.
      bool has_ids = std::any_of(operands.begin(), operands.end(),
                                 [](const FieldValue& value) { return value.type.dtype == DType::kI32; });
      bool picks = has_ids || sample.op == OpKind::kSlice || sample.op == OpKind::kRowMax;
      if (!picks) CHECK_EQ(num_seen, operand.data.size());
    }
  });
}

TEST_CASE("field functions see every attribute that is no size") {
  for_each_sample([](const OpSample& sample) {
    std::vector<FieldValue> operands = field_values(sample, 1);
    std::vector<FieldValue> results = run_whole(sample, operands);
    for (const auto& [name, value] : sample.attributes.items()) {
      Attributes other = sample.attributes;
      if (const double* number = std::get_if<double>(&value)) {
        // Without momentum there is none to weigh.
        if (name == "momentum" && *number == 0) continue;
        other.set(name, *number + 0.25);
      } else if (const std::string* text = std::get_if<std::string>(&value)) {
        // The field has no element types.
        if (name == "einsum" || name == "to" || name == "sums") continue;
        other.set(name, *text + " ");
      } else if (name == "causal" || name == "interleaved" || name == "inverse") {
        other.set(name, !std::get<bool>(value));
      } else {
        continue;
      }
      CAPTURE(name);
      bool sees_no_order = name == "causal" && operands[0].type.shape[1] == 1;
      if (!sees_no_order) CHECK(!is_same(results, run_whole(sample, operands, &other)));
    }
  });
}

TEST_CASE("field functions are linear in the operands in which the verifier takes them to be") {
  for_each_sample([](const OpSample& sample) {
    Plan plan = plan_of(sample);
    std::optional<verify::OpMeaning> meaning = verify::op_meaning(plan, plan.steps[0]);
    if (!meaning) return;
    for (const std::vector<size_t>& group : meaning->linear) {
      std::vector<FieldValue> first = field_values(sample, 1);
      std::vector<FieldValue> second = first;
      std::vector<FieldValue> other = field_values(sample, 2);
      std::vector<FieldValue> sum = first;
      for (size_t operand : group) {
        if (first[operand].type.dtype == DType::kI32) continue;
        second[operand] = other[operand];
        for (size_t i = 0; i < sum[operand].data.size(); ++i)
          sum[operand].data[i] = verify::add(first[operand].data[i], second[operand].data[i]);
      }
      std::vector<FieldValue> of_first = run_whole(sample, first);
      std::vector<FieldValue> of_second = run_whole(sample, second);
      std::vector<FieldValue> of_sum = run_whole(sample, sum);
      for (size_t r = 0; r < of_sum.size(); ++r) {
        for (size_t i = 0; i < of_sum[r].data.size(); ++i)
          REQUIRE_EQ(of_sum[r].data[i], verify::add(of_first[r].data[i], of_second[r].data[i]));
      }
    }
  });
}

TEST_CASE("field functions on the ranks' parts make the parts of what they make on one rank") {
  int num_sharded = 0;
  for_each_sample([&](const OpSample& sample) {
    TypedOp op = sample.typed();
    if (op.op.sharding_rule == nullptr) return;
    ShardingRule rule = op.op.sharding_rule(op.query());
    std::vector<Shape> operand_shapes;
    std::vector<Shape> result_shapes;
    for (const TensorType& type : op.operands) operand_shapes.push_back(type.shape);
    for (const TensorType& type : op.results) result_shapes.push_back(type.shape);
    std::vector<FieldValue> operands = field_values(sample, 3);
    std::vector<FieldValue> whole = run_whole(sample, operands);
    for (int64_t parts : {2, 3}) {
      DeviceMesh mesh({{"x", parts}});
      for (const Strategy& strategy : all_strategies(rule)) {
        const std::vector<Strategy> strategies{strategy};
        if (why_illegal(rule, strategies, operand_shapes, result_shapes, mesh)) continue;
        NodeSharding sharding = node_sharding(rule, strategies, operand_shapes, result_shapes, mesh);
        CAPTURE(to_string(rule));
        ++num_sharded;
        try {
          check_sharded(sample, sharding, mesh, operands, whole);
        } catch (const verify::OpFault& fault) {
          FAIL_CHECK(fault.message);
        }
      }
    }
  });
  CHECK_GT(num_sharded, 300);
}

}  // namespace tpc::testing
