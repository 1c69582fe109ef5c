/// A small plan made by hand: two linear layers, column- then row-parallel on two ranks, and a sum of squares as loss.
#pragma once

#include "compiler/plan/plan.h"

namespace tpc {

inline PlanTensor sample_tensor(std::string name, Shape shape, std::vector<Placement> placements, TensorRole role,
                                int64_t offset, int64_t bytes) {
  PlanTensor tensor;
  tensor.name = std::move(name);
  tensor.type = {DType::kF32, std::move(shape)};
  tensor.sharding = {std::move(placements)};
  tensor.role = role;
  tensor.offset = offset;
  tensor.bytes = bytes;
  return tensor;
}

inline Attributes sample_parameter(Shape shape) {
  return {{"shape", std::move(shape)},
          {"dtype", std::string("f32")},
          {"init", std::string("normal")},
          {"std", 0.02},
          {"trainable", true}};
}

/// Tensors: 0 x, 1 fc1.weight, 2 fc2.weight, 3 fc1, 4 act, 5 fc2, 6 fc2@[R], 7 loss.
inline Plan sample_plan() {
  const Placement whole = Placement::replicate();
  Plan plan;
  plan.model_name = "sample";
  plan.model_json = R"({"dims":{"batch":4,"ffn":6,"hidden":8},"name":"sample"})";
  plan.options = {{"mesh", "tp=2"}, {"strategy", "megatron"}};
  plan.mesh = DeviceMesh({{"tp", 2}});
  plan.tensors = {
      sample_tensor("x", {4, 8}, {whole}, TensorRole::kInput, 0, 128),
      sample_tensor("fc1.weight", {6, 8}, {Placement::shard(0)}, TensorRole::kParameter, 128, 96),
      sample_tensor("fc2.weight", {8, 6}, {Placement::shard(1)}, TensorRole::kParameter, 256, 96),
      sample_tensor("fc1", {4, 6}, {Placement::shard(1)}, TensorRole::kActivation, 384, 48),
      sample_tensor("act", {4, 6}, {Placement::shard(1)}, TensorRole::kActivation, 448, 48),
      sample_tensor("fc2", {4, 8}, {Placement::partial()}, TensorRole::kActivation, 512, 128),
      sample_tensor("fc2@[R]", {4, 8}, {whole}, TensorRole::kActivation, 640, 128),
      sample_tensor("loss", {}, {whole}, TensorRole::kActivation, 768, 4),
  };
  plan.tensors[0].attributes = {{"shape", Shape{4, 8}}, {"dtype", std::string("f32")}};
  plan.tensors[1].attributes = sample_parameter({6, 8});
  plan.tensors[2].attributes = sample_parameter({8, 6});
  auto step = [&](OpKind op, std::vector<int> operands, std::vector<int> results, Attributes attributes,
                  std::string layer) {
    PlanStep item;
    item.op = op;
    item.operands = std::move(operands);
    item.results = std::move(results);
    item.attributes = std::move(attributes);
    item.layer = std::move(layer);
    item.origin = "/layers/0";
    plan.steps.push_back(std::move(item));
  };
  step(OpKind::kContract, {0, 1}, {3}, {{"einsum", std::string("bh,fh->bf")}}, "fc1");
  step(OpKind::kUnary, {3}, {4}, {{"function", std::string("gelu")}}, "act");
  step(OpKind::kContract, {4, 2}, {5}, {{"einsum", std::string("bf,hf->bh")}}, "fc2");
  step(OpKind::kAllReduce, {5}, {6}, {{"axes", std::vector<int64_t>{0}}, {"op", std::string("sum")}}, "loss");
  plan.steps.back().why = "each rank holds a part of the result of \"fc2\"";
  step(OpKind::kSumSquares, {6}, {7}, {}, "loss");
  step(OpKind::kOutput, {7}, {}, {{"name", std::string("loss")}}, "loss");
  plan.outputs = {{"loss", 7}};
  plan.persistent_bytes = 384;
  plan.arena_bytes = 832;
  return plan;
}

}  // namespace tpc
