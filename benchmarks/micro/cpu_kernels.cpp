// The hot kernels of the cpu backend at the shapes of a small and of a middle-sized transformer, on as many threads as
// OMP_NUM_THREADS says. Counters: floating-point operations a second, or bytes read and written a second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/ops/op_def.h"
#include "runtime/cpu/cpu_backend.h"

namespace tpc {
namespace {

/// A step of one rank with buffers of its own; floats are small and vary, integers count up to `num_ids`.
class OwnedStep {
 public:
  OwnedStep(OpKind op, Attributes attributes, const std::vector<TensorType>& operands, int64_t num_ids = 1) {
    step_.op = op;
    step_.name = op_def(op).name;
    step_.attributes = std::move(attributes);
    for (const TensorType& type : operands) step_.operands.push_back(make_tensor(type, num_ids));
    for (const TensorType& type : op_def(op).infer_types({step_.attributes, operands, {}})) {
      step_.results.push_back(make_tensor(type, num_ids));
    }
    cost_ = op_def(op).cost({step_.attributes, operands, types_of(step_.results)});
    kernel_ = make_cpu_backend()->prepare(step_);
  }

  void run(benchmark::State& state) {
    for (auto iteration : state) {
      kernel_->run({});
      benchmark::ClobberMemory();
    }
    using benchmark::Counter;
    const auto rate = Counter::kIsIterationInvariantRate;
    state.counters["flops"] = Counter(cost_.flops, rate);
    state.counters["bytes"] = Counter(cost_.bytes_read + cost_.bytes_written, rate);
  }

 private:
  static std::vector<TensorType> types_of(const std::vector<LocalTensor>& tensors) {
    std::vector<TensorType> types;
    for (const LocalTensor& tensor : tensors) types.push_back(tensor.type);
    return types;
  }

  LocalTensor make_tensor(const TensorType& type, int64_t num_ids) {
    std::vector<float>& buffer = buffers_.emplace_back(static_cast<size_t>(num_elements(type.shape)));
    LocalTensor tensor{type, whole_region(type.shape), buffer.data()};
    for (size_t i = 0; i < buffer.size(); ++i) {
      if (type.dtype == DType::kI32) {
        tensor.i32()[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7 % num_ids);
      } else {
        buffer[i] = 0.5f + 0.5f * std::sin(static_cast<float>(i % 1000));
      }
    }
    return tensor;
  }

  std::vector<std::vector<float>> buffers_;
  LocalStep step_;
  OpCost cost_;
  std::unique_ptr<Kernel> kernel_;
};

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType i32(Shape shape) { return {DType::kI32, std::move(shape)}; }

// y = x w', dx = dy w, dw = dy' x for w[n, k] and m rows.
void contract(benchmark::State& state, const std::string& einsum) {
  const int64_t m = state.range(0);
  const int64_t k = state.range(1);
  const int64_t n = state.range(2);
  auto shape_of = [&](const std::string& term) {
    Shape shape;
    for (char letter : term) shape.push_back(letter == 'm' ? m : letter == 'k' ? k : n);
    return f32(std::move(shape));
  };
  OwnedStep(OpKind::kContract, {{"einsum", einsum}}, {shape_of(einsum.substr(0, 2)), shape_of(einsum.substr(3, 2))})
      .run(state);
}

void contraction_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "k", "n"});
  for (int64_t n : {128, 384, 512}) b->Args({128, 128, n});
  b->Args({128, 512, 128})->Args({128, 128, 256});
  b->Args({1024, 512, 1536})->Args({1024, 512, 2048})->Args({1024, 2048, 512})->Args({1024, 512, 8192});
}
BENCHMARK_CAPTURE(contract, forward, "mk,nk->mn")->Apply(contraction_shapes);
BENCHMARK_CAPTURE(contract, input_grad, "mn,nk->mk")->Apply(contraction_shapes);
BENCHMARK_CAPTURE(contract, weight_grad, "mn,mk->nk")->Apply(contraction_shapes);

// Batch, sequence, heads, kv heads, head size, causal.
void attention_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"b", "s", "a", "g", "d", "causal"});
  b->Args({4, 32, 8, 8, 16, 0})->Args({4, 256, 8, 8, 64, 1})->Args({1, 2048, 8, 2, 128, 1});
}

void attention(benchmark::State& state) {
  const TensorType q = f32({state.range(0), state.range(1), state.range(2), state.range(4)});
  const TensorType k = f32({state.range(0), state.range(1), state.range(3), state.range(4)});
  OwnedStep(OpKind::kAttention, {{"causal", state.range(5) != 0}, {"scale", 0.125}}, {q, k, k}).run(state);
}
BENCHMARK(attention)->Apply(attention_shapes);

void attention_grad(benchmark::State& state) {
  const TensorType q = f32({state.range(0), state.range(1), state.range(2), state.range(4)});
  const TensorType k = f32({state.range(0), state.range(1), state.range(3), state.range(4)});
  const TensorType lse = f32({state.range(0), state.range(1), state.range(2)});
  OwnedStep(OpKind::kAttentionGrad, {{"causal", state.range(5) != 0}, {"scale", 0.125}}, {q, q, k, k, q, lse})
      .run(state);
}
BENCHMARK(attention_grad)->Apply(attention_shapes);

// Rows and their length.
void row_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "h"});
  b->Args({128, 128})->Args({128, 512})->Args({1024, 512})->Args({1024, 2048});
}

void layer_norm(benchmark::State& state) {
  const int64_t h = state.range(1);
  OwnedStep(OpKind::kLayerNorm, {{"eps", 1e-5}}, {f32({state.range(0), h}), f32({h}), f32({h})}).run(state);
}
BENCHMARK(layer_norm)->Apply(row_shapes);

void layer_norm_grad(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t h = state.range(1);
  OwnedStep(OpKind::kLayerNormGrad, {}, {f32({rows, h}), f32({rows, h}), f32({rows}), f32({rows}), f32({h})})
      .run(state);
}
BENCHMARK(layer_norm_grad)->Apply(row_shapes);

void gelu(benchmark::State& state) {
  OwnedStep(OpKind::kUnary, {{"function", std::string("gelu")}}, {f32({state.range(0), state.range(1)})}).run(state);
}
BENCHMARK(gelu)->Apply(row_shapes);

void gelu_grad(benchmark::State& state) {
  const TensorType x = f32({state.range(0), state.range(1)});
  OwnedStep(OpKind::kUnaryGrad, {{"function", std::string("gelu")}}, {x, x}).run(state);
}
BENCHMARK(gelu_grad)->Apply(row_shapes);

void add(benchmark::State& state) {
  const TensorType x = f32({state.range(0), state.range(1)});
  OwnedStep(OpKind::kAdd, {}, {x, x}).run(state);
}
BENCHMARK(add)->Apply(row_shapes);

void bias_grad(benchmark::State& state) {
  OwnedStep(OpKind::kReduceSum, {{"dims", std::vector<int64_t>{0}}}, {f32({state.range(0), state.range(1)})})
      .run(state);
}
BENCHMARK(bias_grad)->Apply(row_shapes);

void dropout(benchmark::State& state) {
  OwnedStep(OpKind::kDropout, {{"rate", 0.1}, {"stream", std::string("drop")}}, {f32({state.range(0), state.range(1)})})
      .run(state);
}
BENCHMARK(dropout)->Apply(row_shapes);

void softmax_stats(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t v = state.range(1);
  OwnedStep(OpKind::kSoftmaxStats, {}, {f32({rows, v}), i32({rows}), f32({rows})}, v).run(state);
}
BENCHMARK(softmax_stats)->ArgNames({"rows", "v"})->Args({128, 256})->Args({1024, 8192});

void softmax_stats_grad(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t v = state.range(1);
  OwnedStep(OpKind::kSoftmaxStatsGrad, {}, {f32({rows, v}), i32({rows}), f32({rows}), f32({2, rows})}, v).run(state);
}
BENCHMARK(softmax_stats_grad)->ArgNames({"rows", "v"})->Args({128, 256})->Args({1024, 8192});

void embedding_grad(benchmark::State& state) {
  const int64_t tokens = state.range(0);
  const int64_t h = state.range(1);
  OwnedStep(OpKind::kEmbeddingGrad, {{"rows", int64_t{256}}}, {i32({tokens}), f32({tokens, h})}, 256).run(state);
}
BENCHMARK(embedding_grad)->Apply(row_shapes);

void rope(benchmark::State& state) {
  OwnedStep(OpKind::kRope,
            {{"theta", 10000.0}, {"rotary_dim", int64_t{64}}, {"interleaved", state.range(0) != 0}, {"inverse", false}},
            {f32({4, 256, 8, 64})})
      .run(state);
}
BENCHMARK(rope)->ArgName("interleaved")->Arg(0)->Arg(1);

void transpose(benchmark::State& state) {
  OwnedStep(OpKind::kTranspose, {{"permutation", std::vector<int64_t>{1, 0}}}, {f32({state.range(0), state.range(1)})})
      .run(state);
}
BENCHMARK(transpose)->Apply(row_shapes);

void adamw(benchmark::State& state) {
  const TensorType w = f32({state.range(0)});
  OwnedStep(
      OpKind::kAdamW,
      {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"has_coefficient", false}},
      {w, w, w, w})
      .run(state);
}
BENCHMARK(adamw)->Arg(1 << 16)->Arg(1 << 22);

void sum_squares(benchmark::State& state) { OwnedStep(OpKind::kSumSquares, {}, {f32({state.range(0)})}).run(state); }
BENCHMARK(sum_squares)->Arg(1 << 16)->Arg(1 << 22);

}  // namespace
}  // namespace tpc
