// Rotary position embedding; sines and cosines are tabulated once for the positions of this rank.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/cpu/kernel_table.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/simd.h"

namespace tpc {

std::unique_ptr<Kernel> prepare_rope(const LocalStep& step) {
  const Region& region = step.operands[0].region;
  const float* x = step.operands[0].f32();
  float* y = step.results[0].f32();
  const int64_t positions = region.dims[1].size();
  const int64_t heads = region.dims[2].size();
  const int64_t d = region.dims[3].size();
  const int64_t rotary_dim = step.attributes.get_int("rotary_dim");
  const int64_t pairs = rotary_dim / 2;
  const bool interleaved = step.attributes.get_bool("interleaved");
  const double direction = step.attributes.get_bool("inverse") ? -1.0 : 1.0;
  const double theta = step.attributes.get_double("theta");

  std::vector<float> cosines(static_cast<size_t>(positions * pairs));
  std::vector<float> sines(cosines.size());
  for (int64_t s = 0; s < positions; ++s) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
      const double angle = direction * static_cast<double>(region.dims[1].begin + s) * frequency;
      cosines[static_cast<size_t>(s * pairs + i)] = static_cast<float>(std::cos(angle));
      sines[static_cast<size_t>(s * pairs + i)] = static_cast<float>(std::sin(angle));
    }
  }

  const int64_t rows = region.dims[0].size() * positions * heads;
  return make_kernel([=, cosines = std::move(cosines), sines = std::move(sines)](const StepContext&) {
    parallel_ranges(rows, 2 * d, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t position = row / heads % positions;
        const float* c = cosines.data() + position * pairs;
        const float* s = sines.data() + position * pairs;
        const float* from = x + row * d;
        float* to = y + row * d;
        if (interleaved) {
          for (int64_t i = 0; i < pairs; ++i) {
            const float u = from[2 * i];
            const float w = from[2 * i + 1];
            to[2 * i] = u * c[i] - w * s[i];
            to[2 * i + 1] = w * c[i] + u * s[i];
          }
        } else {
          // Both halves are read before either is written: y may lie over x.
          for (int64_t i = 0; i < pairs; i += kLanes) {
            const int64_t count = std::min(kLanes, pairs - i);
            auto read = [count](const float* at) { return count == kLanes ? load(at) : load_first(at, count); };
            const Vector u = read(from + i);
            const Vector w = read(from + pairs + i);
            const Vector first = u * read(c + i) - w * read(s + i);
            const Vector second = w * read(c + i) + u * read(s + i);
            if (count == kLanes) {
              store(to + i, first);
              store(to + pairs + i, second);
            } else {
              store_first(to + i, first, count);
              store_first(to + pairs + i, second, count);
            }
          }
        }
        if (to != from) std::copy(from + rotary_dim, from + d, to + rotary_dim);
      }
    });
  });
}

}  // namespace tpc
