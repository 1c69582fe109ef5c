#include "tests/support/global_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/core/philox.h"

namespace tpc::testing {
namespace {

template <class ValueOf>
GlobalTensor filled(const TensorType& type, ValueOf&& value_of) {
  GlobalTensor tensor{type, std::vector<double>(static_cast<size_t>(num_elements(type.shape)))};
  for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = value_of(static_cast<uint64_t>(i));
  return tensor;
}

}  // namespace

GlobalTensor random_normal_tensor(const TensorType& type, uint64_t seed, std::string_view name, double std) {
  PhiloxKey key = philox_key(seed, name);
  return filled(type, [&](uint64_t i) { return std * random_normal(key, 0, i); });
}

GlobalTensor random_uniform_tensor(const TensorType& type, uint64_t seed, std::string_view name, double low,
                                   double high) {
  PhiloxKey key = philox_key(seed, name);
  return filled(type, [&](uint64_t i) { return low + (high - low) * uniform_from_word(random_word(key, 0, i)); });
}

GlobalTensor random_integer_tensor(const TensorType& type, uint64_t seed, std::string_view name, int64_t low,
                                   int64_t high) {
  GlobalTensor tensor = random_uniform_tensor(type, seed, name, static_cast<double>(low), static_cast<double>(high));
  for (double& value : tensor.data) value = std::floor(value);
  return tensor;
}

GlobalTensor constant_tensor(const TensorType& type, double value) {
  return filled(type, [&](uint64_t) { return value; });
}

double relative_difference(const GlobalTensor& a, const GlobalTensor& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.type != b.type || a.data.size() != b.data.size()) return kInfinity;
  double largest = 1;
  double difference = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    if (a.data[i] == b.data[i] || (std::isnan(a.data[i]) && std::isnan(b.data[i]))) continue;
    if (!std::isfinite(a.data[i]) || !std::isfinite(b.data[i])) return kInfinity;
    difference = std::max(difference, std::abs(a.data[i] - b.data[i]));
  }
  for (double value : b.data) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return difference / largest;
}

}  // namespace tpc::testing
