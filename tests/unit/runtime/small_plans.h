/// Plans built by hand, without a compiler.
#pragma once

#include "compiler/plan/plan.h"

namespace tpc::testing {

/// Lays tensors one after the other; those that persist are added first.
class PlanBuilder {
 public:
  explicit PlanBuilder(const DeviceMesh& mesh) {
    plan_.model_name = "test";
    plan_.mesh = mesh;
  }

  int tensor(std::string name, Shape shape, TensorSharding sharding, TensorRole role = TensorRole::kActivation,
             DType dtype = DType::kF32, Attributes attributes = {}) {
    PlanTensor t;
    t.name = std::move(name);
    t.type = {dtype, std::move(shape)};
    t.sharding = std::move(sharding);
    t.role = role;
    t.offset = plan_.arena_bytes;
    t.bytes = num_elements(fullest_shape(t.type.shape, t.sharding, plan_.mesh)) * byte_size(dtype);
    t.attributes = std::move(attributes);
    plan_.arena_bytes += (t.bytes + 63) / 64 * 64;
    bool persists = role == TensorRole::kInput || role == TensorRole::kParameter || role == TensorRole::kState;
    if (persists) plan_.persistent_bytes = plan_.arena_bytes;
    plan_.tensors.push_back(std::move(t));
    return static_cast<int>(plan_.tensors.size()) - 1;
  }

  /// A tensor that is written over `other`.
  int tensor_over(std::string name, int other) {
    PlanTensor t = plan_.tensors[static_cast<size_t>(other)];
    t.name = std::move(name);
    t.role = TensorRole::kOther;
    t.attributes = {};
    plan_.tensors.push_back(std::move(t));
    return static_cast<int>(plan_.tensors.size()) - 1;
  }

  void step(OpKind op, std::vector<int> operands, std::vector<int> results, Attributes attributes = {},
            Phase phase = Phase::kForward) {
    PlanStep s;
    s.op = op;
    s.operands = std::move(operands);
    s.results = std::move(results);
    s.attributes = std::move(attributes);
    s.phase = phase;
    s.layer = "layer" + std::to_string(plan_.steps.size());
    plan_.steps.push_back(std::move(s));
  }

  Plan& plan() { return plan_; }

 private:
  Plan plan_;
};

/// loss = |x w1 w2|^2 on ranks of axis tp: w1 split by columns, w2 by rows, one all_reduce; both trained by SGD. Steps:
/// 0 h = x w1, 1 y = h w2 (Partial), 2 all_reduce, 3 loss, ... The all_reduce is left out on one rank.
inline Plan two_layer_plan(int64_t num_ranks) {
  PlanBuilder b(DeviceMesh({{"tp", num_ranks}}));
  auto on = [](Placement p) { return TensorSharding{{p}}; };
  const auto r = on(Placement::replicate()), p = on(Placement::partial());
  const auto columns = on(Placement::shard(1)), rows = on(Placement::shard(0));
  int x = b.tensor("x", {4, 6}, r, TensorRole::kInput);
  int w1 = b.tensor("w1", {6, 5}, columns, TensorRole::kParameter, DType::kF32,
                    {{"init", std::string("normal")}, {"std", 0.5}});
  int w2 = b.tensor("w2", {5, 7}, rows, TensorRole::kParameter, DType::kF32,
                    {{"init", std::string("uniform")}, {"bound", 0.5}});
  int h = b.tensor("h", {4, 5}, columns);
  int partial_y = b.tensor("partial_y", {4, 7}, num_ranks == 1 ? r : p);
  int y = num_ranks == 1 ? partial_y : b.tensor("y", {4, 7}, r);
  int loss = b.tensor("loss", {}, r);
  int dy = b.tensor("grad.y", {4, 7}, r, TensorRole::kGradient);
  int dw2 = b.tensor("grad.w2", {5, 7}, rows, TensorRole::kGradient);
  int dh = b.tensor("grad.h", {4, 5}, columns, TensorRole::kGradient);
  int dw1 = b.tensor("grad.w1", {6, 5}, columns, TensorRole::kGradient);
  int new_w1 = b.tensor_over("new.w1", w1);
  int new_w2 = b.tensor_over("new.w2", w2);

  auto einsum = [](const char* text) { return Attributes{{"einsum", std::string(text)}}; };
  b.step(OpKind::kContract, {x, w1}, {h}, einsum("bi,io->bo"));
  b.step(OpKind::kContract, {h, w2}, {partial_y}, einsum("bi,io->bo"));
  if (num_ranks > 1) {
    b.step(OpKind::kAllReduce, {partial_y}, {y}, {{"axes", std::vector<int64_t>{0}}, {"op", std::string("sum")}});
  }
  b.step(OpKind::kSumSquares, {y}, {loss});
  b.step(OpKind::kScale, {y}, {dy}, {{"factor", 2.0}}, Phase::kBackward);
  b.step(OpKind::kContract, {h, dy}, {dw2}, einsum("bi,bo->io"), Phase::kBackward);
  b.step(OpKind::kContract, {dy, w2}, {dh}, einsum("bo,io->bi"), Phase::kBackward);
  b.step(OpKind::kContract, {x, dh}, {dw1}, einsum("bi,bo->io"), Phase::kBackward);
  Attributes sgd{{"lr", 0.001}, {"momentum", 0.0}, {"weight_decay", 0.0}, {"has_coefficient", false}};
  b.step(OpKind::kSgd, {w1, dw1}, {new_w1}, sgd, Phase::kOptimizer);
  b.step(OpKind::kUpdate, {w1, new_w1}, {}, {}, Phase::kOptimizer);
  b.step(OpKind::kSgd, {w2, dw2}, {new_w2}, sgd, Phase::kOptimizer);
  b.step(OpKind::kUpdate, {w2, new_w2}, {}, {}, Phase::kOptimizer);
  b.plan().outputs = {{"loss", loss}};
  return b.plan();
}

}  // namespace tpc::testing
