#include "runtime/cpu/cpu_backend.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <set>

#include "compiler/core/bfloat16.h"
#include "compiler/core/check.h"
#include "tests/support/kernel_cases.h"
#include "tests/unit/runtime/cpu/kernel_run.h"

namespace tpc::testing {
namespace {

/// Rounding of sums of some hundred floats, against sums in double.
constexpr double kTolerance = 1e-5;

/// A result in bf16 is rounded to it once.
double tolerance(const RankStep& step) {
  bool is_rounded = std::ranges::any_of(step.results, [](const Part& part) { return part.type.dtype == DType::kBF16; });
  return is_rounded ? kTolerance + kBFloat16Epsilon / 2 : kTolerance;
}

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace

TEST_CASE("every op with a reference has a cpu kernel and a case here") {
  std::set<OpKind> covered;
  for (const KernelCase& sample : kernel_cases()) covered.insert(sample.op);
  for (const OpDef* op : all_ops()) {
    CAPTURE(op->name);
    CHECK_EQ(op->reference != nullptr, covered.contains(op->kind));
  }
}

TEST_CASE("cpu kernels compute what the references do, on any rank") {
  const ThreadCount one(1);
  for (const KernelCase& sample : kernel_cases()) {
    for_each_share(sample, [](const RankStep& step) {
      CHECK_LT(difference(run_cpu(step), run_reference(step)), tolerance(step));
    });
  }
}

TEST_CASE("cpu kernels may write over the operands that their ops name") {
  const ThreadCount one(1);
  for (const KernelCase& sample : kernel_cases()) {
    if (op_def(sample.op).inplace.empty()) continue;
    for_each_share(sample, [](const RankStep& step) { CHECK_EQ(run_cpu(step, Buffers::kInPlace), run_cpu(step)); });
  }
}

TEST_CASE("cpu kernels compute the same for any number of threads") {
  for (const KernelCase& sample : kernel_cases()) {
    if (sample.op == OpKind::kContract) continue;
    CAPTURE(sample.text());
    const RankStep step = unsharded_step(sample);
    std::vector<std::vector<double>> results[2];
    for (int i : {0, 1}) {
      const ThreadCount threads(i == 0 ? 1 : 3);
      results[i] = run_cpu(step);
    }
    CHECK_EQ(results[0], results[1]);
  }
}

TEST_CASE("an operand that is added to itself may lie under the sum") {
  const TensorType type{DType::kF32, {40}};
  const Region region = whole_region(type.shape);
  std::vector<float> buffer(40, 1.0f);
  std::vector<float> other(40, 10.0f);
  const tpc::LocalTensor a{type, region, buffer.data()};
  const tpc::LocalTensor b{type, region, other.data()};
  LocalStep local{.op = OpKind::kAdd, .attributes = {}, .operands = {a, b, a}, .results = {a}, .name = "sum"};
  make_cpu_backend()->prepare(local)->run({});
  CHECK_EQ(buffer, std::vector<float>(40, 12.0f));
}

TEST_CASE("the parts of a move are placed by global index") {
  const Region whole = whole_region({5, 7});
  const Region part{{{1, 4}, {2, 7}}};
  const TensorType type{DType::kF32, {5, 7}};
  auto numbered = [&](const Region& region) {
    Part made{type, region, {}};
    for (int64_t i = 0; i < region.num_elements(); ++i) made.data.push_back(static_cast<double>(i + 1));
    return made;
  };
  for (OpKind op : {OpKind::kLocalSlice, OpKind::kZeroPad, OpKind::kMask}) {
    for (bool is_first : {true, false}) {
      const Region& from = op == OpKind::kZeroPad ? part : whole;
      const Region& to = op == OpKind::kLocalSlice ? part : whole;
      RankStep step{.op = op, .attributes = {}, .operands = {numbered(from)}, .results = {{type, to, {}}}};
      step.is_first_in_group = is_first;
      CAPTURE(op_def(op).name);
      CHECK_EQ(run_cpu(step), run_reference(step));
    }
  }
}

TEST_CASE("an update copies the new value to the parameter") {
  const TensorType type{DType::kF32, {3}};
  std::vector<float> target{1, 2, 3};
  std::vector<float> value{4, 5, 6};
  const Region region = whole_region({3});
  LocalStep step{.op = OpKind::kUpdate,
                 .attributes = {},
                 .operands = {{type, region, target.data()}, {type, region, value.data()}},
                 .results = {},
                 .name = "w"};
  make_cpu_backend()->prepare(step)->run({});
  CHECK_EQ(target, value);
}

TEST_CASE("a step that is the communicator's is refused") {
  CHECK_THROWS_AS(make_cpu_backend()->prepare(
                      {.op = OpKind::kAllReduce, .attributes = {}, .operands = {}, .results = {}, .name = "sum"}),
                  InternalError);
}

}  // namespace tpc::testing
