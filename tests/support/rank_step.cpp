#include "tests/support/rank_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/support/simulated_ranks.h"

namespace tpc::testing {
namespace {

Part part_of(const TensorType& type, const LocalTensor& local) { return {type, local.region, local.data}; }

std::vector<Shape> shapes_of(const std::vector<TensorType>& types) {
  std::vector<Shape> shapes;
  for (const TensorType& type : types) shapes.push_back(type.shape);
  return shapes;
}

// Calls visit(step) for every rank's share of the case under these shardings.
void for_each_rank(const KernelCase& sample, const TypedOp& op, const NodeSharding& sharding, const DeviceMesh& mesh,
                   const std::function<void(const RankStep&)>& visit) {
  std::vector<RankTensors> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    operands.push_back(shard_tensor(sample.operands[i], sharding.operands[i], mesh));
  }
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    RankStep step;
    step.op = sample.op;
    step.attributes = sample.attributes;
    step.is_first_in_group = rank == 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      step.operands.push_back(part_of(op.operands[i], operands[i][static_cast<size_t>(rank)]));
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      Region region = local_region(op.results[i].shape, sharding.results[i], mesh, mesh.coordinate(rank));
      step.results.push_back({op.results[i], std::move(region), {}});
    }
    visit(step);
  }
}

NodeSharding replicated(const TypedOp& op, const DeviceMesh& mesh) {
  return {std::vector(op.operands.size(), TensorSharding::replicated(mesh)),
          std::vector(op.results.size(), TensorSharding::replicated(mesh))};
}

TypedOp typed(const KernelCase& sample) {
  return typed_op(op_def(sample.op), sample.attributes, sample.operand_types());
}

}  // namespace

RankStep unsharded_step(const KernelCase& sample) {
  const TypedOp op = typed(sample);
  const DeviceMesh alone({{"x", 1}});
  RankStep only;
  for_each_rank(sample, op, replicated(op, alone), alone, [&](const RankStep& step) { only = step; });
  return only;
}

void for_each_share(const KernelCase& sample, const std::function<void(const RankStep&)>& visit) {
  CAPTURE(sample.text());
  const TypedOp op = typed(sample);
  const DeviceMesh alone({{"x", 1}});
  for_each_rank(sample, op, replicated(op, alone), alone, visit);
  if (op.op.sharding_rule == nullptr) return;
  const ShardingRule rule = op.op.sharding_rule(op.query());
  const std::vector<Shape> operand_shapes = shapes_of(op.operands);
  const std::vector<Shape> result_shapes = shapes_of(op.results);
  for (int64_t size : {2, 3}) {
    const DeviceMesh mesh({{"x", size}});
    for (size_t i = 0; i < rule.factors.size(); ++i) {
      const std::vector<Strategy> strategies{Strategy::factor(static_cast<int>(i))};
      if (why_illegal(rule, strategies, operand_shapes, result_shapes, mesh)) continue;
      INFO("split ", rule.factors[i].name, " on ", size);
      for_each_rank(sample, op, node_sharding(rule, strategies, operand_shapes, result_shapes, mesh), mesh, visit);
    }
  }
}

std::vector<std::vector<double>> run_reference(const RankStep& step) {
  std::vector<Part> operands = step.operands;
  std::vector<ReferenceTensor> operand_tensors;
  for (Part& part : operands) operand_tensors.push_back({part.type, part.region, part.data.data()});
  std::vector<std::vector<double>> results;
  for (const Part& part : step.results) {
    results.emplace_back(static_cast<size_t>(part.region.num_elements()), std::numeric_limits<double>::quiet_NaN());
  }
  std::vector<ReferenceTensor> result_tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    result_tensors.push_back({step.results[i].type, step.results[i].region, results[i].data()});
  }
  op_def(step.op).reference({step.attributes, operand_tensors, result_tensors, step.context, step.is_first_in_group});
  return results;
}

double difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double scale = 1;
    for (double value : b[i]) scale = std::max(scale, std::abs(value));
    for (size_t j = 0; j < a[i].size(); ++j) {
      const double found = std::abs(a[i][j] - b[i][j]) / scale;
      if (std::isnan(found)) return std::numeric_limits<double>::infinity();
      largest = std::max(largest, found);
    }
  }
  return largest;
}

}  // namespace tpc::testing
