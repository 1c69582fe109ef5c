// Ops whose results lack indices of their operands: a rank that holds a range of one makes its part of the sum.
#include <fmt/format.h>

#include <utility>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

const Interval& range_of(const FieldTensor& tensor, const std::string& letters, char letter) {
  return tensor.region.dims[letters.find(letter)];
}

}  // namespace

void contract_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& w = call.operands[1];
  const FieldTensor& y = call.results[0];
  const std::string& text = call.attributes.get_string("einsum");
  size_t comma = text.find(',');
  size_t arrow = text.find("->");
  std::string of_x = text.substr(0, comma);
  std::string of_w = text.substr(comma + 1, arrow - comma - 1);
  std::string of_y = text.substr(arrow + 2);
  require_rank(x, of_x.size());
  require_rank(w, of_w.size());
  require_rank(y, of_y.size());
  std::string summed;
  for (size_t d = 0; d < of_x.size(); ++d) {
    if (of_y.find(of_x[d]) != std::string::npos) continue;
    summed += of_x[d];
    require_same_range(x, d, w, of_w.find(of_x[d]));
  }
  IndexLoop outer(of_y, y.region);
  IndexLoop inner;
  for (size_t d = 0; d < of_y.size(); ++d)
    inner.within(of_y[d], {y.region.dims[d].begin, std::min(y.region.dims[d].begin + 1, y.region.dims[d].end)});
  for (char letter : summed) {
    const Interval& range = range_of(x, of_x, letter);
    outer.within(letter, {range.begin, std::min(range.begin + 1, range.end)});
    inner.over(letter, range);
  }
  // Offsets of the products of one result, from those of its first.
  std::vector<std::pair<int64_t, int64_t>> products;
  inner.follow(x, of_x);
  inner.follow(w, of_w);
  std::pair<int64_t, int64_t> first;
  inner.run([&](const int64_t* at, const int64_t*) {
    if (products.empty()) first = {at[0], at[1]};
    products.emplace_back(at[0] - first.first, at[1] - first.second);
  });
  fill_zeros(y);
  outer.follow(x, of_x);
  outer.follow(w, of_w);
  outer.follow(y, of_y);
  outer.run([&](const int64_t* at, const int64_t*) {
    const Element* from_x = x.data + at[0];
    const Element* from_w = w.data + at[1];
    ProductSum sum;
    for (const auto& [in_x, in_w] : products) sum.add(from_x[in_x], from_w[in_w]);
    y.data[at[2]] = sum.value();
  });
}

void reduce_sum_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  std::string letters = dim_letters(x.region.dims.size());
  std::string kept = without_dims(letters, call.attributes.get_ints("dims"));
  require_rank(y, kept.size());
  IndexLoop loop;
  for (size_t d = 0; d < letters.size(); ++d) {
    bool is_kept = kept.find(letters[d]) != std::string::npos;
    loop.over(letters[d], is_kept ? range_of(y, kept, letters[d]) : x.region.dims[d]);
  }
  loop.follow(x, letters);
  loop.follow(y, kept);
  fill_zeros(y);
  loop.run([&](const int64_t* at, const int64_t*) { y.data[at[1]] = add(y.data[at[1]], x.data[at[0]]); });
}

void broadcast_to_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  std::string letters = dim_letters(y.region.dims.size());
  IndexLoop loop(letters, y.region);
  loop.follow(x, without_dims(letters, call.attributes.get_ints("dims")));
  loop.follow(y, letters);
  loop.run([&](const int64_t* at, const int64_t*) { y.data[at[1]] = x.data[at[0]]; });
}

void sum_squares_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  require_rank(call.results[0], 0);
  ProductSum sum;
  for (int64_t i = 0; i < x.region.num_elements(); ++i) sum.add(x.data[i], x.data[i]);
  call.results[0].data[0] = sum.value();
}

/// Of the elements as whole numbers: like the real maximum it does not depend on the order or on how the row is
/// divided.
void row_max_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  std::string tokens = dim_letters(y.region.dims.size());
  require_rank(x, tokens.size() + 1);
  IndexLoop loop(tokens, y.region);
  loop.over('v', x.region.dims.back());
  loop.follow(x, tokens + "v");
  loop.follow(y, tokens);
  fill_zeros(y);
  loop.run([&](const int64_t* at, const int64_t*) { y.data[at[1]] = std::max(y.data[at[1]], x.data[at[0]]); });
}

}  // namespace tpc::verify
