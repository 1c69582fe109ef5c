// The graphs that cuDNN is given mean what the ops mean: on ranks with any part of the heads and queries, whole and in
// parts.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/core/bfloat16.h"
#include "runtime/cuda/cudnn/variant_pack.h"
#include "tests/cudnn/graph_interpreter.h"
#include "tests/support/global_tensor.h"

namespace tpc::testing {
namespace {

using cuda::cudnn::AttentionPointers;
using cuda::cudnn::BoundSlot;
using cuda::cudnn::HostValues;
using cuda::cudnn::OperationGraph;

/// Probabilities are bf16 between two products, as are gradients of scores.
constexpr double kTolerance = 0x1p-6;

struct Case {
  const char* what;
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  bool causal;
  // What the rank has.
  Interval my_queries, my_heads, my_kv_heads;
};

const Case kCases[] = {
    {"whole", 2, 5, 7, 4, 4, 8, false, {0, 5}, {0, 4}, {0, 4}},
    {"causal", 2, 6, 6, 3, 3, 8, true, {0, 6}, {0, 3}, {0, 3}},
    {"causal with more keys", 1, 5, 9, 2, 2, 8, true, {0, 5}, {0, 2}, {0, 2}},
    {"grouped heads", 2, 6, 6, 6, 2, 16, true, {0, 6}, {0, 6}, {0, 2}},
    {"a rank's kv heads", 2, 6, 6, 6, 3, 8, true, {0, 6}, {2, 6}, {1, 3}},
    {"some query heads of one kv head", 2, 6, 6, 8, 2, 8, true, {0, 6}, {4, 7}, {1, 2}},
    {"first queries", 2, 8, 8, 2, 1, 8, true, {0, 3}, {0, 2}, {0, 1}},
    {"queries of the middle", 2, 8, 10, 2, 2, 8, true, {2, 6}, {0, 2}, {0, 2}},
    {"one query", 1, 1, 4, 2, 1, 8, true, {0, 1}, {0, 2}, {0, 1}},
};

double as_bf16(double value) { return static_cast<double>(BFloat16(static_cast<float>(value))); }

/// A tensor of the rank, in double for the reference and as it lies on a device.
struct Part {
  TensorType type;
  Region region;
  std::vector<double> values;
  std::vector<BFloat16> bf16;
  std::vector<float> f32;

  Part(const Shape& shape, Region held, DType dtype) : type{dtype, shape}, region(std::move(held)) {
    auto count = static_cast<size_t>(region.num_elements());
    values.resize(count);
    // What is not written stays visible.
    bf16.assign(dtype == DType::kBF16 ? count : 0, BFloat16(1e6F));
    f32.assign(dtype == DType::kF32 ? count : 0, 1e6F);
  }
  void fill(std::string_view name) {
    values = random_normal_tensor({DType::kF32, region.extents()}, /*seed=*/3, name).data;
  }
  void round() {
    for (double& value : values)
      value = type.dtype == DType::kBF16 ? as_bf16(value) : static_cast<double>(static_cast<float>(value));
    for (size_t i = 0; i < bf16.size(); ++i) bf16[i] = BFloat16(static_cast<float>(values[i]));
    for (size_t i = 0; i < f32.size(); ++i) f32[i] = static_cast<float>(values[i]);
  }
  void* data() { return bf16.empty() ? static_cast<void*>(f32.data()) : static_cast<void*>(bf16.data()); }
  ReferenceTensor reference() { return {type, region, values.data()}; }
  LocalTensor local() { return {type, region, data()}; }
};

/// All tensors of attention and its gradient on one rank.
struct Problem {
  Case sizes;
  Attributes attributes;
  Part q, k, v, o, lse, grad, dq, dk, dv;

  explicit Problem(const Case& c)
      : sizes(c),
        attributes{{"causal", c.causal}, {"scale", 0.4}},
        q(query_shape(), query_region(), DType::kBF16),
        k(key_shape(), key_region(), DType::kBF16),
        v(key_shape(), key_region(), DType::kBF16),
        o(query_shape(), query_region(), DType::kBF16),
        lse(statistics_shape(), statistics_region(), DType::kF32),
        grad(query_shape(), query_region(), DType::kBF16),
        dq(query_shape(), query_region(), DType::kBF16),
        dk(key_shape(), key_region(), DType::kBF16),
        dv(key_shape(), key_region(), DType::kBF16) {
    q.fill("q");
    k.fill("k");
    v.fill("v");
    grad.fill("grad");
    for (Part* part : {&q, &k, &v, &grad}) part->round();
  }

  LocalStep step(OpKind op) {
    LocalStep made;
    made.op = op;
    made.attributes = attributes;
    for (Part* part : operands(op)) made.operands.push_back(part->local());
    for (Part* part : results(op)) made.results.push_back(part->local());
    return made;
  }
  void run_reference(OpKind op) {
    std::vector<ReferenceTensor> inputs;
    std::vector<ReferenceTensor> outputs;
    for (Part* part : operands(op)) inputs.push_back(part->reference());
    for (Part* part : results(op)) outputs.push_back(part->reference());
    op_def(op).reference({attributes, inputs, outputs, {}, true});
  }
  std::vector<Part*> operands(OpKind op) {
    if (op == OpKind::kAttention) return {&q, &k, &v};
    return {&grad, &q, &k, &v, &o, &lse};
  }
  std::vector<Part*> results(OpKind op) {
    if (op == OpKind::kAttention) return {&o, &lse};
    return {&dq, &dk, &dv};
  }

 private:
  Shape query_shape() const { return {sizes.batch, sizes.queries, sizes.heads, sizes.head_dim}; }
  Shape key_shape() const { return {sizes.batch, sizes.keys, sizes.kv_heads, sizes.head_dim}; }
  Shape statistics_shape() const { return {sizes.batch, sizes.queries, sizes.heads}; }
  Region query_region() const { return {{{0, sizes.batch}, sizes.my_queries, sizes.my_heads, {0, sizes.head_dim}}}; }
  Region key_region() const { return {{{0, sizes.batch}, {0, sizes.keys}, sizes.my_kv_heads, {0, sizes.head_dim}}}; }
  Region statistics_region() const { return {{{0, sizes.batch}, sizes.my_queries, sizes.my_heads}}; }
};

// [b,s,a] as [b,a,s], or back.
std::vector<float> with_heads_exchanged(const std::vector<float>& values, int64_t batch, int64_t rows,
                                        int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        result[static_cast<size_t>((b * columns + j) * rows + i)] =
            values[static_cast<size_t>((b * rows + i) * columns + j)];
      }
    }
  }
  return result;
}

// As the kernel does it, on the host.
void run_graph(Problem& problem, OpKind op, const CudnnAttention& whole, const CudnnAttention& part) {
  auto bytes = [](Part& tensor) { return static_cast<std::byte*>(tensor.data()); };
  std::vector<float> lse = with_heads_exchanged(problem.lse.f32, whole.batch, whole.queries, whole.heads);
  std::vector<float> dots(lse.size());
  AttentionPointers pointers = {.q = bytes(problem.q),
                                .k = bytes(problem.k),
                                .v = bytes(problem.v),
                                .o = bytes(problem.o),
                                .lse = reinterpret_cast<std::byte*>(lse.data()),
                                .grad = bytes(problem.grad),
                                .dots = reinterpret_cast<std::byte*>(dots.data()),
                                .dq = bytes(problem.dq),
                                .dk = bytes(problem.dk),
                                .dv = bytes(problem.dv)};
  OperationGraph graph(recording_library());
  whole.is_grad ? add_attention_grad(graph, part) : add_attention(graph, part);
  HostValues values(part);
  for (const CudnnPart& first : cudnn_parts(whole, part)) {
    std::vector<BoundSlot> slots = bind_part(part, pointers, first);
    values.bind(part, slots);
    interpret(graph, make_variant_pack(recording_library(), slots, nullptr));
  }
  if (op == OpKind::kAttention) {
    problem.lse.f32 = with_heads_exchanged(lse, whole.batch, whole.heads, whole.queries);
  }
}

void check_results(Problem& problem, OpKind op, const CudnnAttention& whole) {
  for (Part* result : problem.results(op)) {
    double largest = 0;
    for (double value : result->values) largest = std::max(largest, std::abs(value));
    // Keys without a query are not the graph's: the kernel clears their gradients.
    bool is_key = result == &problem.dk || result == &problem.dv;
    int64_t row = whole.kv_heads * whole.head_dim;
    double difference = 0;
    for (size_t i = 0; i < result->values.size(); ++i) {
      bool is_unseen = is_key && static_cast<int64_t>(i) / row % whole.all_keys >= whole.keys;
      double found = result->bf16.empty() ? static_cast<double>(result->f32[i]) : static_cast<double>(result->bf16[i]);
      if (is_unseen) {
        CHECK(result->values[i] == 0);
        CHECK(found > 1e5);
      } else {
        difference = std::max(difference, std::abs(found - result->values[i]));
      }
    }
    CHECK(difference < kTolerance * std::max(largest, 1.0));
  }
}

TEST_CASE("attention's graph computes the op") {
  for (const Case& c : kCases) {
    CAPTURE(c.what);
    Problem problem(c);
    CudnnAttention whole = cudnn_attention(problem.step(OpKind::kAttention)).value();
    run_graph(problem, OpKind::kAttention, whole, part_at_once(whole));
    problem.run_reference(OpKind::kAttention);
    check_results(problem, OpKind::kAttention, whole);
  }
}

TEST_CASE("the gradient's graph computes the op, whole and in parts") {
  for (const Case& c : kCases) {
    CAPTURE(c.what);
    Problem problem(c);
    problem.run_reference(OpKind::kAttention);
    problem.o.round();
    problem.lse.round();
    CudnnAttention whole = cudnn_attention(problem.step(OpKind::kAttentionGrad)).value();
    CudnnAttention one_sample = whole;
    one_sample.batch = 1;
    CudnnAttention one_key_head = one_sample;
    one_key_head.kv_heads = 1;
    one_key_head.heads = whole.heads / whole.kv_heads;
    for (const CudnnAttention& part : {whole, one_sample, one_key_head}) {
      CAPTURE(part.batch);
      CAPTURE(part.heads);
      run_graph(problem, OpKind::kAttentionGrad, whole, part);
      problem.run_reference(OpKind::kAttentionGrad);
      check_results(problem, OpKind::kAttentionGrad, whole);
    }
  }
}

TEST_CASE("cuDNN is asked for bf16 attention whose heads go evenly") {
  auto asked = [](const Case& c, auto change) {
    Problem problem(c);
    LocalStep step = problem.step(OpKind::kAttention);
    change(step);
    return is_cudnn_attention(step);
  };
  auto as_it_is = [](LocalStep&) {};
  const Case whole = kCases[0];
  CHECK(asked(whole, as_it_is));
  CHECK_FALSE(asked(whole, [](LocalStep& step) { step.operands[0].type.dtype = DType::kF32; }));
  CHECK_FALSE(asked(whole, [](LocalStep& step) { step.op = OpKind::kAdd; }));
  CHECK_FALSE(asked(
      whole, [](LocalStep& step) { step.operands[1].data = static_cast<std::byte*>(step.operands[1].data) + 2; }));
  Case odd_heads = whole;
  odd_heads.head_dim = 12;
  CHECK_FALSE(asked(odd_heads, as_it_is));
  Case large_heads = whole;
  large_heads.head_dim = 136;
  CHECK_FALSE(asked(large_heads, as_it_is));
  // Of two kv heads with three query heads each: two and two, three and one, two and one.
  CHECK(asked({"", 1, 4, 4, 6, 2, 8, true, {0, 4}, {1, 5}, {0, 2}}, as_it_is));
  CHECK_FALSE(asked({"", 1, 4, 4, 6, 2, 8, true, {0, 4}, {0, 4}, {0, 2}}, as_it_is));
  CHECK_FALSE(asked({"", 1, 4, 4, 6, 2, 8, true, {0, 4}, {1, 4}, {0, 2}}, as_it_is));
  CHECK_FALSE(asked({"", 1, 4, 4, 2, 2, 8, true, {0, 0}, {0, 2}, {0, 2}}, as_it_is));
}

TEST_CASE("a gradient is done in even parts whose scores are not too many") {
  CudnnAttention whole;
  whole.is_grad = true;
  whole.batch = 6;
  whole.heads = whole.all_heads = 32;
  whole.kv_heads = whole.all_kv_heads = 8;
  whole.queries = whole.keys = whole.all_keys = 1024;
  whole.head_dim = 128;
  // 64 MiB of scores a sample.
  CHECK(part_at_once(whole) == whole);
  whole.batch = 34;
  CHECK(part_at_once(whole).batch == 2);
  CHECK(cudnn_parts(whole, part_at_once(whole)).size() == 17);
  whole.queries = whole.keys = whole.all_keys = 8192;
  CudnnAttention part = part_at_once(whole);
  CHECK(part.batch == 1);
  CHECK(part.heads == 8);
  CHECK(part.kv_heads == 2);
  CHECK(cudnn_parts(whole, part).size() == 34 * 4);
  CHECK(cudnn_parts(whole, part).back().head == 24);
  whole.is_grad = false;
  CHECK(part_at_once(whole) == whole);
}

}  // namespace
}  // namespace tpc::testing
