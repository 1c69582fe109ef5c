#include "runtime/initial_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/core/check.h"
#include "compiler/core/philox.h"
#include "compiler/lowering/region_copy.h"

namespace tpc {
namespace {

// The four words of a Philox block serve four neighbours (see philox.h), so blocks are made once each.
class BlockReader {
 public:
  explicit BlockReader(PhiloxKey key) : key_(key) {}

  const PhiloxCounter& block_of(uint64_t index) {
    uint64_t block = index / 4;
    if (block != block_ || !is_valid_) {
      words_ = philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key_);
      block_ = block;
      is_valid_ = true;
    }
    return words_;
  }

 private:
  PhiloxKey key_;
  PhiloxCounter words_{};
  uint64_t block_ = 0;
  bool is_valid_ = false;
};

// Both lanes of a Box-Muller pair are computed wherever a run begins, so that an element never depends on the split.
void fill_normal(BlockReader& reader, double deviation, uint64_t begin, float* out, int64_t length) {
  int64_t i = 0;
  while (i < length) {
    uint64_t index = begin + static_cast<uint64_t>(i);
    const PhiloxCounter& words = reader.block_of(index);
    size_t pair = index % 4 / 2 * 2;
    double radius = std::sqrt(-2.0 * std::log(uniform_from_word(words[pair])));
    double angle = 2.0 * std::numbers::pi * uniform_from_word(words[pair + 1]);
    auto even = static_cast<float>(deviation * (radius * std::cos(angle)));
    auto odd = static_cast<float>(deviation * (radius * std::sin(angle)));
    if (index % 2 == 0) {
      out[i++] = even;
      if (i < length) out[i++] = odd;
    } else {
      out[i++] = odd;
    }
  }
}

void fill_uniform(BlockReader& reader, double bound, uint64_t begin, float* out, int64_t length) {
  for (int64_t i = 0; i < length; ++i) {
    uint64_t index = begin + static_cast<uint64_t>(i);
    double unit = uniform_from_word(reader.block_of(index)[index % 4]);
    out[i] = static_cast<float>(bound * (2.0 * unit - 1.0));
  }
}

}  // namespace

void fill_initial(const PlanTensor& tensor, uint64_t seed, const LocalTensor& local) {
  TPC_CHECK(tensor.type.dtype == DType::kF32, "\"{}\" is {}", tensor.name, to_string(tensor.type));
  std::string init = tensor.attributes.has("init") ? tensor.attributes.get_string("init") : "zeros";
  float* out = local.f32();
  int64_t size = local.region.num_elements();
  if (init == "zeros" || init == "ones" || init == "constant") {
    double value = init == "ones" ? 1.0 : init == "zeros" ? 0.0 : tensor.attributes.get_double("value");
    std::fill_n(out, size, static_cast<float>(value));
    return;
  }
  TPC_CHECK(init == "normal" || init == "uniform", "\"{}\" starts as \"{}\"", tensor.name, init);
  bool is_normal = init == "normal";
  double width = tensor.attributes.get_double(is_normal ? "std" : "bound");
  BlockReader reader(philox_key(seed, tensor.name));
  // The source offset of a copy out of the whole tensor is the global index.
  RegionCopy runs(whole_region(tensor.type.shape), local.region);
  runs.for_each_run([&](int64_t global, int64_t offset, int64_t length) {
    auto fill = is_normal ? fill_normal : fill_uniform;
    fill(reader, width, static_cast<uint64_t>(global), out + offset, length);
  });
}

}  // namespace tpc
