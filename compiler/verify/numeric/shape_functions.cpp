// Ops that put elements elsewhere.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

/// Copies all of `loop`, which both have.
void copy(const Region& loop_region, const FieldTensor& from, const FieldTensor& to) {
  std::string letters = dim_letters(loop_region.dims.size());
  IndexLoop loop;
  loop.within(letters, loop_region);
  loop.follow(from, letters);
  loop.follow(to, letters);
  loop.run([&](const int64_t* at, const int64_t*) { to.data[at[1]] = from.data[at[0]]; });
}

size_t dim_of(const OpCall& call) { return static_cast<size_t>(call.attributes.get_int("dim")); }

/// The part as a range, from index "start", of dimension "dim" of the tensor that it is a part of.
FieldTensor part_of(const OpCall& call, FieldTensor part, const FieldTensor& whole) {
  if (part.region.dims.size() < whole.region.dims.size()) part = with_dim(std::move(part), dim_of(call));
  return shifted(std::move(part), dim_of(call), call.attributes.get_int("start"));
}

}  // namespace

void reshape_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  std::string letters = dim_letters(y.region.dims.size());
  Shape strides = row_major_strides(x.region.extents());
  IndexLoop loop(letters, y.region);
  loop.follow(y, letters);
  loop.run([&](const int64_t* at, const int64_t* index) {
    int64_t element = 0;
    for (size_t d = 0; d < y.shape.size(); ++d) element = element * y.shape[d] + index[d];
    int64_t from = 0;
    int64_t rest = element;
    for (size_t d = x.shape.size(); d > 0; --d) {
      const Interval& held = x.region.dims[d - 1];
      int64_t here = rest % x.shape[d - 1];
      rest /= x.shape[d - 1];
      if (here < held.begin || here >= held.end) {
        throw OpFault{fmt::format("needs index {} of dimension {} of \"{}\" for element {} and has [{}, {})", here,
                                  d - 1, x.name, element, held.begin, held.end)};
      }
      from += (here - held.begin) * strides[d - 1];
    }
    y.data[at[0]] = x.data[from];
  });
}

void transpose_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& y = call.results[0];
  std::string in = dim_letters(x.region.dims.size());
  std::string out;
  for (int64_t dim : call.attributes.get_ints("permutation")) out += in[static_cast<size_t>(dim)];
  require_rank(y, out.size());
  IndexLoop loop(out, y.region);
  loop.follow(x, in);
  loop.follow(y, out);
  loop.run([&](const int64_t* at, const int64_t*) { y.data[at[1]] = x.data[at[0]]; });
}

void slice_function(const OpCall& call) {
  FieldTensor part = part_of(call, call.results[0], call.operands[0]);
  copy(part.region, call.operands[0], part);
}

void pad_function(const OpCall& call) {
  FieldTensor part = part_of(call, call.operands[0], call.results[0]);
  fill_zeros(call.results[0]);
  copy(part.region, part, call.results[0]);
}

void concat_function(const OpCall& call) {
  const FieldTensor& y = call.results[0];
  require_whole(y, dim_of(call));
  int64_t start = 0;
  for (const FieldTensor& operand : call.operands) {
    FieldTensor part = call.attributes.get_bool("stack") ? with_dim(operand, dim_of(call)) : operand;
    require_whole(part, dim_of(call));
    int64_t size = part.shape[dim_of(call)];
    part = shifted(std::move(part), dim_of(call), start);
    // The other dimensions as the result has them.
    Region here = y.region;
    here.dims[dim_of(call)] = {start, start + size};
    copy(here, part, y);
    start += size;
  }
}

void local_slice_function(const OpCall& call) { copy(call.results[0].region, call.operands[0], call.results[0]); }

void mask_function(const OpCall& call) {
  fill_zeros(call.results[0]);
  if (call.is_first_in_group) copy(call.results[0].region, call.operands[0], call.results[0]);
}

void zero_pad_function(const OpCall& call) {
  fill_zeros(call.results[0]);
  copy(call.operands[0].region, call.operands[0], call.results[0]);
}

}  // namespace tpc::verify
