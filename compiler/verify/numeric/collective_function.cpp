#include "compiler/verify/numeric/collective_function.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

FieldTensor tensor_of(const Part& part) {
  // Read only.
  return {"what a rank of the group has", {}, part.region, const_cast<Element*>(part.data.data())};
}

Part reduction(bool is_maximum, std::span<const Part* const> parts, const Region& region) {
  Part result{region, std::vector<Element>(static_cast<size_t>(region.num_elements()), 0)};
  std::string letters = dim_letters(region.dims.size());
  for (const Part* part : parts) {
    IndexLoop loop;
    loop.within(letters, region);
    loop.follow(tensor_of(*part), letters);
    loop.follow(tensor_of(result), letters);
    loop.run([&](const int64_t* at, const int64_t*) {
      Element& element = result.data[static_cast<size_t>(at[1])];
      Element other = part->data[static_cast<size_t>(at[0])];
      element = is_maximum ? std::max(element, other) : add(element, other);
    });
  }
  return result;
}

Region intersection(const Region& a, const Region& b) {
  Region shared = a;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    shared.dims[d].begin = std::max(a.dims[d].begin, b.dims[d].begin);
    shared.dims[d].end = std::max(shared.dims[d].begin, std::min(a.dims[d].end, b.dims[d].end));
  }
  return shared;
}

Part gathering(std::span<const Part* const> parts, const Region& region) {
  Part result{region, std::vector<Element>(static_cast<size_t>(region.num_elements()), 0)};
  std::vector<bool> is_there(result.data.size(), false);
  std::string letters = dim_letters(region.dims.size());
  size_t num_there = 0;
  for (const Part* part : parts) {
    if (part->region.dims.size() != region.dims.size()) throw OpFault{"has parts of other dimensions"};
    Region shared = intersection(part->region, region);
    if (shared.num_elements() == 0) continue;
    IndexLoop loop;
    loop.within(letters, shared);
    loop.follow(tensor_of(*part), letters);
    loop.follow(tensor_of(result), letters);
    loop.run([&](const int64_t* at, const int64_t*) {
      auto to = static_cast<size_t>(at[1]);
      if (is_there[to]) return;
      is_there[to] = true;
      ++num_there;
      result.data[to] = part->data[static_cast<size_t>(at[0])];
    });
  }
  if (num_there < is_there.size())
    throw OpFault{
        fmt::format("its group holds {} of the {} elements that it is to receive", num_there, is_there.size())};
  return result;
}

}  // namespace

Part collective_result(OpKind op, const Attributes& attributes, std::span<const Part* const> parts,
                       const Region& region) {
  bool reduces = op == OpKind::kAllReduce || op == OpKind::kReduceScatter;
  return reduces ? reduction(attributes.get_string("op") == "max", parts, region) : gathering(parts, region);
}

}  // namespace tpc::verify
