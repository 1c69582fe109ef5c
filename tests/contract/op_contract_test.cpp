// What holds of every op by itself: its types, its gradient, its cost, its use of buffers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/op_samples.h"
#include "tests/support/node_gradient.h"
#include "tests/support/reference_executor.h"

namespace tpc::testing {
namespace {

constexpr size_t kGuard = 16;
constexpr double kGuardValue = 12345.678;

/// A buffer with guards on both sides, filled with a value that no kernel writes.
struct GuardedBuffer {
  std::vector<double> data;

  explicit GuardedBuffer(size_t size) : data(size + 2 * kGuard, kGuardValue) {}
  double* begin() { return data.data() + kGuard; }
  std::span<double> inside() { return {begin(), data.size() - 2 * kGuard}; }
  bool guards_intact() const {
    auto intact = [](double value) { return value == kGuardValue; };
    return std::all_of(data.begin(), data.begin() + kGuard, intact) &&
           std::all_of(data.end() - kGuard, data.end(), intact);
  }
};

struct KernelRun {
  std::vector<GuardedBuffer> operands;
  std::vector<GuardedBuffer> results;
};

/// Runs the reference of a sample in guarded buffers; with `inplace`, results lie over the operands that the op names.
KernelRun run_guarded(const OpSample& sample, const TypedOp& op, bool inplace) {
  KernelRun run;
  std::vector<ReferenceTensor> ins;
  std::vector<ReferenceTensor> outs;
  for (const GlobalTensor& value : sample.values()) {
    run.operands.emplace_back(value.data.size());
    std::copy(value.data.begin(), value.data.end(), run.operands.back().begin());
  }
  for (const TensorType& type : op.results) run.results.emplace_back(static_cast<size_t>(num_elements(type.shape)));
  for (size_t i = 0; i < op.operands.size(); ++i) {
    ins.push_back({op.operands[i], whole_region(op.operands[i].shape), run.operands[i].begin()});
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    bool over_operand = inplace && i < op.op.inplace.size() && op.op.inplace[i] >= 0;
    double* data = over_operand ? run.operands[static_cast<size_t>(op.op.inplace[i])].begin() : run.results[i].begin();
    outs.push_back({op.results[i], whole_region(op.results[i].shape), data});
  }
  op.op.reference({op.attributes, ins, outs, kSampleContext, true});
  return run;
}

double dot(const GlobalTensor& a, const GlobalTensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

/// Allowed difference between a gradient and central differences with step 1e-5, relative to the largest entry: the
/// differences themselves are good to about 1e-9.
double gradient_tolerance(OpKind op) {
  switch (op) {
    case OpKind::kDivide:     // third derivatives up to 6 / 0.5^4
    case OpKind::kTokenLoss:  // log near 0.5
      return 1e-7;
    default:
      return 2e-8;
  }
}

/// The gradients that an op declares for a node whose result 0 has gradient `seed`; empty where it declares none.
std::vector<std::vector<double>> declared_gradients(const OpSample& sample, const GlobalTensor& seed,
                                                    const std::vector<bool>& needs_grad) {
  GraphBuilder builder;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    TensorType type = sample.operands[i].type();
    operands.push_back(builder.input("operand" + std::to_string(i), type.shape, type.dtype));
  }
  std::vector<ValueId> results = builder.add_node(sample.op, operands, sample.attributes, "node");
  Node node = builder.graph().nodes.back();
  // Further results are statistics that only the op's own gradient reads.
  std::vector<ValueId> grads(results.size());
  grads[0] = builder.input("seed", seed.type.shape);
  std::vector<ValueId> made = add_node_gradient(builder, node, grads, needs_grad);

  ReferenceExecutor executor(builder.graph());
  std::vector<GlobalTensor> values = sample.values();
  for (size_t i = 0; i < values.size(); ++i) executor.set_leaf("operand" + std::to_string(i), values[i]);
  executor.set_leaf("seed", seed);
  executor.run_step(kSampleContext);
  std::vector<std::vector<double>> gradients(made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].is_valid()) gradients[i] = executor.value(builder.graph().value(made[i]).name).data;
  }
  return gradients;
}

std::vector<double> central_differences(const OpSample& sample, const TypedOp& op, const GlobalTensor& seed, size_t i) {
  constexpr double kStep = 1e-5;
  std::vector<GlobalTensor> values = sample.values();
  std::vector<double> gradient;
  for (double& x : values[i].data) {
    double start = x;
    x = start + kStep;
    double above = dot(seed, run_unsharded(op, values, kSampleContext)[0]);
    x = start - kStep;
    double below = dot(seed, run_unsharded(op, values, kSampleContext)[0]);
    x = start;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

/// Gradients are made before any tensor becomes bf16.
bool is_all_f32(const TypedOp& op) {
  auto is_bf16 = [](const TensorType& type) { return type.dtype == DType::kBF16; };
  return std::ranges::none_of(op.operands, is_bf16) && std::ranges::none_of(op.results, is_bf16);
}

double relative_difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  TensorType type{DType::kF32, {static_cast<int64_t>(a.size())}};
  return relative_difference({type, a}, {type, b});
}

}  // namespace

TEST_CASE("every op with a reference kernel has a sample") {
  std::set<OpKind> sampled;
  for (const OpSample& sample : op_samples()) sampled.insert(sample.op);
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK_EQ(op->reference != nullptr, sampled.count(op->kind) == 1);
  }
}

TEST_CASE("op rows are complete") {
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK_EQ(find_op(op->name), op);
    CHECK_EQ(&op_def(op->kind), op);
    CHECK(!op->summary.empty());
    bool infers_types = op->infer_types != nullptr;
    bool has_rule = op->sharding_rule != nullptr;
    bool has_reference = op->reference != nullptr;
    bool has_cost = op->cost != nullptr;
    CHECK(infers_types);
    CHECK_LE(op->min_operands, op->max_operands);
    if (has_rule && op->num_results != 0) CHECK(has_reference);
    if (has_reference) CHECK(has_cost);
    if (op->heavy) CHECK(has_rule);
  }
}

TEST_CASE("kernels write exactly the results that infer_types says") {
  for (const OpSample& sample : op_samples()) {
    CAPTURE(sample.text());
    TypedOp op = sample.typed();
    if (op.op.num_results >= 0) CHECK_EQ(op.results.size(), static_cast<size_t>(op.op.num_results));
    std::vector<GlobalTensor> values = sample.values();
    KernelRun run = run_guarded(sample, op, /*inplace=*/false);
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(run.operands[i].guards_intact());
      CHECK(std::equal(values[i].data.begin(), values[i].data.end(), run.operands[i].begin()));
    }
    for (GuardedBuffer& result : run.results) {
      CHECK(result.guards_intact());
      auto is_written = [](double value) { return value != kGuardValue && std::isfinite(value); };
      CHECK(std::all_of(result.inside().begin(), result.inside().end(), is_written));
    }
  }
}

TEST_CASE("results may lie over the operands that the op names") {
  for (const OpSample& sample : op_samples()) {
    TypedOp op = sample.typed();
    if (op.op.inplace.empty()) continue;
    CAPTURE(sample.text());
    KernelRun apart = run_guarded(sample, op, /*inplace=*/false);
    KernelRun over = run_guarded(sample, op, /*inplace=*/true);
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (i >= op.op.inplace.size() || op.op.inplace[i] < 0) continue;
      size_t operand = static_cast<size_t>(op.op.inplace[i]);
      if (operand >= op.operands.size()) continue;
      CHECK_EQ(byte_size(op.results[i]), byte_size(op.operands[operand]));
      CHECK(std::ranges::equal(apart.results[i].inside(), over.operands[operand].inside()));
    }
  }
}

TEST_CASE("gradients equal central differences") {
  for (const OpSample& sample : op_samples()) {
    TypedOp op = sample.typed();
    if (op.op.gradient == nullptr || !is_all_f32(op)) continue;
    CAPTURE(sample.text());
    GlobalTensor seed = random_normal_tensor(op.results[0], 2, "seed");
    std::vector<bool> needs_grad;
    for (const TensorType& type : op.operands) needs_grad.push_back(type.dtype == DType::kF32);
    std::vector<std::vector<double>> gradients = declared_gradients(sample, seed, needs_grad);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      CAPTURE(i);
      bool is_constant = !needs_grad[i] || std::ranges::count(sample.constant_operands, i) > 0;
      REQUIRE_EQ(gradients[i].empty(), is_constant);
      if (is_constant) continue;
      std::vector<double> differences = central_differences(sample, op, seed, i);
      CHECK_LT(relative_difference_of(gradients[i], differences), gradient_tolerance(sample.op));
      // Alone it must be the same: other operands may be frozen.
      std::vector<bool> only_this(op.operands.size(), false);
      only_this[i] = true;
      CHECK_EQ(declared_gradients(sample, seed, only_this)[i], gradients[i]);
    }
  }
}

TEST_CASE("no gradient flows when none of the results has one") {
  for (const OpSample& sample : op_samples()) {
    TypedOp op = sample.typed();
    if (op.op.gradient == nullptr || !is_all_f32(op)) continue;
    CAPTURE(sample.text());
    GraphBuilder builder;
    std::vector<ValueId> operands;
    for (const TensorType& type : op.operands) {
      operands.push_back(builder.input("operand" + std::to_string(operands.size()), type.shape, type.dtype));
    }
    std::vector<ValueId> results = builder.add_node(sample.op, operands, sample.attributes);
    Node node = builder.graph().nodes.back();
    std::vector<bool> needs_grad(operands.size(), true);
    for (ValueId grad : add_node_gradient(builder, node, std::vector<ValueId>(results.size()), needs_grad)) {
      CHECK(!grad.is_valid());
    }
  }
}

TEST_CASE("costs are finite, and count at least what is written") {
  for (const OpSample& sample : op_samples()) {
    CAPTURE(sample.text());
    TypedOp op = sample.typed();
    OpCost cost = op.op.cost(op.query());
    double written = 0;
    for (const TensorType& type : op.results) written += static_cast<double>(byte_size(type));
    CHECK(std::isfinite(cost.flops));
    CHECK_GE(cost.flops, 0);
    CHECK_GE(cost.bytes_read, 0);
    CHECK_EQ(cost.bytes_written, written);
    if (op.op.heavy) CHECK_GT(cost.flops, 0);
  }
}

}  // namespace tpc::testing
