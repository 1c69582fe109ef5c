// Dropout: an element's fate is a pure function of (seed, stream, step, global index), the same for any mesh.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "compiler/core/philox.h"
#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {
namespace {

/// Blocks of four words that are made side by side, in kSets vectors.
constexpr uint64_t kWideLanes = kVectorBytes / 8;
constexpr uint64_t kSets = 4;
constexpr uint64_t kWords = 4 * kSets * kWideLanes;

/// The words of elements [4 * first_block, 4 * first_block + kWords): random_word of each, vectorised over blocks.
void random_words(PhiloxKey key, uint64_t stream, uint64_t first_block, std::array<uint32_t, kWords>& words) {
  // One counter word of a block is the low half of a lane; what the high halves hold is never used.
  WideVector a[kSets];
  WideVector b[kSets];
  WideVector c[kSets];
  WideVector d[kSets];
  for (uint64_t set = 0; set < kSets; ++set) {
    a[set] = WideVector{} + (first_block + set * kWideLanes);
    for (uint64_t lane = 0; lane < kWideLanes; ++lane) a[set][lane] += lane;
    b[set] = a[set] >> 32;
    c[set] = WideVector{} + stream;
    d[set] = c[set] >> 32;
  }
  const WideVector multiplier0 = WideVector{} + uint64_t{0xD2511F53};
  const WideVector multiplier1 = WideVector{} + uint64_t{0xCD9E8D57};
  for (int round = 0; round < 10; ++round) {
    for (uint64_t set = 0; set < kSets; ++set) {
      const WideVector product0 = multiply_low_halves(a[set], multiplier0);
      const WideVector product1 = multiply_low_halves(c[set], multiplier1);
      a[set] = (product1 >> 32) ^ b[set] ^ key[0];
      b[set] = product1;
      c[set] = (product0 >> 32) ^ d[set] ^ key[1];
      d[set] = product0;
    }
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  uint32_t* to = words.data();
  for (uint64_t set = 0; set < kSets; ++set) {
    for (uint64_t lane = 0; lane < kWideLanes; ++lane, to += 4) {
      to[0] = static_cast<uint32_t>(a[set][lane]);
      to[1] = static_cast<uint32_t>(b[set][lane]);
      to[2] = static_cast<uint32_t>(c[set][lane]);
      to[3] = static_cast<uint32_t>(d[set][lane]);
    }
  }
}

/// The least word that keeps its element: uniform_from_word(word) >= rate from there on. 2^32 when none does.
uint64_t first_kept_word(double rate) {
  uint64_t low = 0;
  uint64_t high = uint64_t{1} << 32;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (uniform_from_word(static_cast<uint32_t>(middle)) >= rate) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

std::unique_ptr<Kernel> prepare_dropout(const LocalStep& step) {
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const double rate = step.attributes.get_double("rate");
  const uint64_t threshold = first_kept_word(rate);
  const float factor = static_cast<float>(1.0 / (1.0 - rate));
  const std::string stream = "dropout/" + step.attributes.get_string("stream");

  // The region as runs of elements that follow each other globally: trailing dimensions held whole, and the one before.
  const Region region = step.operands[0].region;
  const Shape strides = row_major_strides(step.operands[0].type.shape);
  size_t outer_dims = region.dims.size();
  int64_t run_length = 1;
  while (outer_dims > 0) {
    --outer_dims;
    run_length *= region.dims[outer_dims].size();
    if (region.dims[outer_dims].size() != step.operands[0].type.shape[outer_dims]) break;
  }
  const int64_t runs = region.num_elements() / run_length;
  const int64_t inner_base = [&] {
    int64_t base = 0;
    for (size_t d = outer_dims; d < region.dims.size(); ++d) base += region.dims[d].begin * strides[d];
    return base;
  }();
  auto global_index = [=](int64_t run) {
    int64_t index = inner_base;
    for (size_t d = outer_dims; d > 0; --d) {
      const Interval& interval = region.dims[d - 1];
      index += (interval.begin + run % interval.size()) * strides[d - 1];
      run /= interval.size();
    }
    return index;
  };

  return make_kernel([=](const StepContext& context) {
    const PhiloxKey key = philox_key(context.seed, stream);
    // Threads share long runs too: a piece is some words of one run.
    constexpr int64_t kPiece = 2048;
    const int64_t pieces_of_run = (run_length + kPiece - 1) / kPiece;
    parallel_ranges(runs * pieces_of_run, 4 * std::min(kPiece, run_length), [&](int64_t begin, int64_t end) {
      std::array<uint32_t, kWords> words;
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t run = piece / pieces_of_run;
        int64_t i = piece % pieces_of_run * kPiece;
        const int64_t last = std::min(run_length, i + kPiece);
        const int64_t first_index = global_index(run);
        while (i < last) {
          const uint64_t index = static_cast<uint64_t>(first_index + i);
          random_words(key, context.step, index / 4, words);
          const int64_t skipped = static_cast<int64_t>(index % 4);
          const int64_t count = std::min(last - i, static_cast<int64_t>(kWords) - skipped);
          const float* from = x + run * run_length + i;
          float* to = y + run * run_length + i;
          for (int64_t j = 0; j < count; ++j) {
            to[j] = words[static_cast<size_t>(j + skipped)] >= threshold ? from[j] * factor : 0.0f;
          }
          i += count;
        }
      }
    });
  });
}

}  // namespace tpc
