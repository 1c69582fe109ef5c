#include "compiler/verify/numeric/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/verify/numeric/op_function.h"

namespace tpc::verify {
namespace {

constexpr int64_t kNowhere = -1;

std::string text_of(const Region& region) {
  std::string text;
  for (const Interval& range : region.dims)
    text += fmt::format("{}[{}, {})", text.empty() ? "" : " x ", range.begin, range.end);
  return text.empty() ? "a scalar" : text;
}

}  // namespace

RankMemory::RankMemory(const Plan& plan)
    : plan_(plan),
      parts_(plan.tensors.size()),
      is_there_(plan.tensors.size(), false),
      was_written_(plan.tensors.size(), false) {}

int64_t RankMemory::end_of(int tensor) const {
  return begin_of(tensor) + std::max<int64_t>(1, plan_.tensors[static_cast<size_t>(tensor)].bytes);
}

const Part* RankMemory::find(int tensor) const {
  return is_there_[static_cast<size_t>(tensor)] ? &parts_[static_cast<size_t>(tensor)] : nullptr;
}

const Part& RankMemory::read(int tensor, const Region& region) const {
  const std::string& name = plan_.tensors[static_cast<size_t>(tensor)].name;
  const Part* part = find(tensor);
  if (part == nullptr) {
    if (!was_written_[static_cast<size_t>(tensor)])
      throw OpFault{fmt::format("reads \"{}\", which no step before it made", name)};
    throw OpFault{fmt::format("reads \"{}\", over which something else was written", name)};
  }
  if (part->region != region)
    throw OpFault{fmt::format("reads {} of \"{}\", of which it made {}", text_of(region), name, text_of(part->region))};
  return *part;
}

void RankMemory::lose_range(int64_t begin, int64_t end, int64_t but_at) {
  auto next = contents_.upper_bound(begin);
  if (next != contents_.begin() && std::prev(next)->second.end > begin) --next;
  while (next != contents_.end() && next->first < end) {
    if (next->first == but_at) {
      ++next;
      continue;
    }
    for (int lost : next->second.tensors) {
      is_there_[static_cast<size_t>(lost)] = false;
      parts_[static_cast<size_t>(lost)] = {};
    }
    next = contents_.erase(next);
  }
}

void RankMemory::write(int tensor, Part part) {
  lose_range(begin_of(tensor), end_of(tensor), kNowhere);
  contents_[begin_of(tensor)] = {end_of(tensor), {tensor}};
  parts_[static_cast<size_t>(tensor)] = std::move(part);
  is_there_[static_cast<size_t>(tensor)] = true;
  was_written_[static_cast<size_t>(tensor)] = true;
}

void RankMemory::share(int tensor, int held, Part part) {
  if (begin_of(tensor) != begin_of(held) || find(held) == nullptr) return write(tensor, std::move(part));
  lose_range(begin_of(tensor), end_of(tensor), begin_of(held));
  Content& content = contents_[begin_of(held)];
  content.end = std::max(content.end, end_of(tensor));
  std::erase(content.tensors, tensor);
  content.tensors.push_back(tensor);
  parts_[static_cast<size_t>(tensor)] = std::move(part);
  is_there_[static_cast<size_t>(tensor)] = true;
  was_written_[static_cast<size_t>(tensor)] = true;
}

}  // namespace tpc::verify
