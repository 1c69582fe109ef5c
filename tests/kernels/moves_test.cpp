// What the samples do not have: parts of a tensor that begin anywhere, sums of very many terms.
#include <doctest/doctest.h>

#include "runtime/cuda/kernel_table.h"
#include "tests/kernels/emulated_run.h"

namespace tpc::testing {
namespace {

const Emulation kEmulation{.seed = 1, .max_block_threads = 64};

Part numbered(const TensorType& type, const Region& region) {
  Part part{type, region, {}};
  // Whole numbers below 257 are exact in bf16.
  for (int64_t i = 0; i < region.num_elements(); ++i) part.data.push_back(static_cast<double>(i % 251 + 1));
  return part;
}

}  // namespace

TEST_CASE("emulated: the parts of a move are placed by global index") {
  const Region whole = whole_region({5, 3, 12});
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType type{dtype, {5, 3, 12}};
    for (const Region& part : {Region{{{1, 4}, {0, 3}, {0, 12}}}, Region{{{0, 5}, {1, 2}, {3, 11}}},
                               Region{{{2, 3}, {0, 3}, {4, 12}}}, Region{{{4, 5}, {2, 3}, {11, 12}}}}) {
      RankStep slice{.op = OpKind::kLocalSlice, .attributes = {}, .operands = {}, .results = {}};
      slice.operands = {numbered(type, whole)};
      slice.results = {{type, part, {}}};
      CHECK_EQ(run_emulated(cuda::prepare_local_slice, slice, Buffers::kSeparate, kEmulation), run_reference(slice));

      RankStep pad{.op = OpKind::kZeroPad, .attributes = {}, .operands = {}, .results = {}};
      pad.operands = {numbered(type, part)};
      pad.results = {{type, whole, {}}};
      CHECK_EQ(run_emulated(cuda::prepare_zero_pad, pad, Buffers::kSeparate, kEmulation), run_reference(pad));
    }
    for (bool is_first : {true, false}) {
      RankStep mask{.op = OpKind::kMask, .attributes = {}, .operands = {}, .results = {}};
      mask.operands = {numbered(type, whole)};
      mask.results = {{type, whole, {}}};
      mask.is_first_in_group = is_first;
      for (Buffers buffers : {Buffers::kSeparate, Buffers::kInPlace}) {
        CHECK_EQ(run_emulated(cuda::prepare_mask, mask, buffers, kEmulation), run_reference(mask));
      }
    }
  }
}

TEST_CASE("emulated: a sum may have more terms than a kernel has arguments") {
  const TensorType type{DType::kF32, {3, 5}};
  RankStep sum{.op = OpKind::kAdd, .attributes = {}, .operands = {}, .results = {}};
  for (int i = 0; i < 300; ++i) sum.operands.push_back(numbered(type, whole_region(type.shape)));
  sum.results = {{type, whole_region(type.shape), {}}};
  for (Buffers buffers : {Buffers::kSeparate, Buffers::kInPlace}) {
    CHECK_EQ(run_emulated(cuda::prepare_add, sum, buffers, kEmulation), run_reference(sum));
  }
}

TEST_CASE("emulated: an operand that is added to itself may lie under the sum") {
  const TensorType type{DType::kF32, {40}};
  const Part x = numbered(type, whole_region(type.shape));
  RankStep sum{.op = OpKind::kAdd, .attributes = {}, .operands = {x, x, x}, .results = {{type, x.region, {}}}};
  const auto over_itself = [](const LocalStep& step, cuda::DeviceQueue& queue) {
    LocalStep same = step;
    same.operands[2] = same.operands[0];
    return cuda::prepare_add(same, queue);
  };
  CHECK_EQ(run_emulated(over_itself, sum, Buffers::kInPlace, kEmulation), run_reference(sum));
}

}  // namespace tpc::testing
