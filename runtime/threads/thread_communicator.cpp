#include "runtime/threads/thread_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/core/philox.h"
#include "compiler/lowering/region_copy.h"
#include "runtime/threads/reduce_run.h"

namespace tpc {
namespace {

uint64_t hash_of(const std::string& text) {
  PhiloxKey key = philox_key(/*seed=*/0, text);
  return (uint64_t{key[1]} << 32) | key[0];
}

std::string describe(const CollectiveStep& step) {
  return fmt::format("{} of \"{}\" (plan step {})", op_name(step.op), step.name, step.step_index);
}

// All that members must agree on, as text.
std::string agreement(const CollectiveStep& step) {
  std::string text = fmt::format("{} {} {}", describe(step), to_string(step.reduce), to_string(step.input.type));
  for (const Region& region : step.output_regions) text += to_string(region.extents());
  return text;
}

// The part that all collectives share: meeting, and making sure that the members do the same.
class ThreadCollective : public Collective {
 public:
  ThreadCollective(const CollectiveStep& step, ThreadWorld& world)
      : input_(step.input),
        output_(step.output),
        own_(static_cast<size_t>(step.index)),
        element_size_(byte_size(step.input.type.dtype)),
        meeting_(world.rendezvous(step.group)),
        announcement_(world.keep({describe(step), hash_of(agreement(step)), step.input.data, nullptr})) {}

 protected:
  size_t size() const { return meeting_.size(); }
  void meet() { meeting_.arrive(own_, announcement_); }

  // The first meeting of a run: from here until the next one every member's input can be read.
  void meet_and_compare() {
    meet();
    for (size_t member = 0; member < size(); ++member) {
      const Announcement& other = meeting_.announced(member);
      TPC_CHECK(other.signature == announcement_.signature,
                "ranks of one group issue different collectives: rank {} {}, rank {} {}", meeting_.ranks()[own_],
                announcement_.description, meeting_.ranks()[member], other.description);
    }
  }

  const void* input_of(size_t member) const { return meeting_.announced(member).input; }
  /// Element `index` of the output.
  char* output_at(int64_t index) const { return static_cast<char*>(output_.data) + index * element_size_; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_size_); }

  LocalTensor input_;
  LocalTensor output_;
  size_t own_;
  int64_t element_size_;
  Rendezvous& meeting_;
  Announcement& announcement_;
};

// all_gather and all_to_all: the parts of the own output are copied from whoever holds them. An output that overlaps
// the input is gathered aside, since peers still read the input.
class Exchange final : public ThreadCollective {
 public:
  Exchange(const CollectiveStep& step, ThreadWorld& world) : ThreadCollective(step, world) {
    int64_t covered = 0;
    // Each member starts with its right neighbour, so that not all read the same memory at once.
    for (size_t i = 1; i <= size(); ++i) {
      size_t member = (own_ + i) % size();
      RegionCopy copy(step.input_regions[member], output_.region);
      covered += copy.num_elements();
      if (copy.num_elements() > 0) parts_.push_back({member, std::move(copy)});
    }
    TPC_CHECK(covered == output_.region.num_elements(), "{}: the members hold {} of {} elements", describe(step),
              covered, output_.region.num_elements());
    if (overlap(input_, output_)) aside_.resize(bytes(covered));
  }

  int64_t run() override {
    meet_and_compare();
    char* target = aside_.empty() ? output_at(0) : aside_.data();
    int64_t received = 0;
    for (const Part& part : parts_) {
      int64_t copied = part.copy.run(input_of(part.member), target, element_size_);
      if (part.member != own_) received += copied;
    }
    meet();
    if (!aside_.empty()) std::memcpy(output_.data, aside_.data(), aside_.size());
    return received * element_size_;
  }

 private:
  struct Part {
    size_t member;
    RegionCopy copy;
  };
  std::vector<Part> parts_;
  std::vector<char> aside_;
};

class Reduction : public ThreadCollective {
 public:
  Reduction(const CollectiveStep& step, ThreadWorld& world)
      : ThreadCollective(step, world), reduce_(step.reduce), sources_(size()), bf16_sources_(size()) {
    TPC_CHECK(is_float(input_.type.dtype), "{}: {} is not reduced", describe(step), to_string(input_.type));
    for (const Region& region : step.input_regions) {
      TPC_CHECK(region == input_.region, "{}: the members hold different parts", describe(step));
    }
  }

 protected:
  void find_sources() {
    for (size_t member = 0; member < size(); ++member) {
      sources_[member] = static_cast<const float*>(input_of(member));
      bf16_sources_[member] = static_cast<const BFloat16*>(input_of(member));
    }
  }
  // Reduces `length` elements from `offset` of all members' inputs; returns the elements that came from peers.
  int64_t reduce(int64_t offset, char* target, int64_t length) const {
    if (input_.type.dtype == DType::kBF16) {
      reduce_run(reduce_, bf16_sources_, offset, reinterpret_cast<BFloat16*>(target), length);
    } else {
      reduce_run(reduce_, sources_, offset, reinterpret_cast<float*>(target), length);
    }
    return static_cast<int64_t>(size() - 1) * length;
  }

 private:
  ReduceOp reduce_;
  // Of one of the two types.
  std::vector<const float*> sources_;
  std::vector<const BFloat16*> bf16_sources_;
};

// Only what will be held is reduced.
class ReduceScatter final : public Reduction {
 public:
  ReduceScatter(const CollectiveStep& step, ThreadWorld& world)
      : Reduction(step, world), part_(input_.region, output_.region) {
    int64_t held = output_.region.num_elements();
    TPC_CHECK(part_.num_elements() == held, "{}: the members hold {} of {} elements", describe(step),
              part_.num_elements(), held);
    if (overlap(input_, output_)) aside_.resize(bytes(held));
  }

  int64_t run() override {
    meet_and_compare();
    find_sources();
    char* target = aside_.empty() ? output_at(0) : aside_.data();
    int64_t received = 0;
    part_.for_each_run([&](int64_t source, int64_t destination, int64_t length) {
      received += reduce(source, target + destination * element_size_, length);
    });
    meet();
    if (!aside_.empty()) std::memcpy(output_.data, aside_.data(), aside_.size());
    return received * element_size_;
  }

 private:
  RegionCopy part_;
  std::vector<char> aside_;
};

// Each member reduces its balanced block of the flattened tensor, then fetches the other blocks from who reduced them.
// Over a coinciding input that is safe, for nobody else reads the own block of the own input; over one that overlaps
// otherwise the own block waits aside until all inputs have been read.
class AllReduce final : public Reduction {
 public:
  AllReduce(const CollectiveStep& step, ThreadWorld& world) : Reduction(step, world) {
    int64_t total = output_.region.num_elements();
    TPC_CHECK(output_.region == input_.region, "{}: input and output differ in shape", describe(step));
    for (size_t member = 0; member < size(); ++member) {
      blocks_.push_back(balanced_block(total, /*unit=*/1, static_cast<int64_t>(size()), static_cast<int64_t>(member)));
    }
    const Interval& block = blocks_[own_];
    if (input_.data != output_.data && overlap(input_, output_)) aside_.resize(bytes(block.size()));
    announcement_.block = aside_.empty() ? output_at(block.begin) : aside_.data();
  }

  int64_t run() override {
    meet_and_compare();
    find_sources();
    const Interval& block = blocks_[own_];
    char* target = aside_.empty() ? output_at(block.begin) : aside_.data();
    int64_t received = reduce(block.begin, target, block.size());
    meet();
    for (size_t i = 1; i < size(); ++i) {
      size_t member = (own_ + i) % size();
      const Interval& theirs = blocks_[member];
      if (theirs.size() == 0) continue;
      std::memcpy(output_at(theirs.begin), meeting_.announced(member).block, bytes(theirs.size()));
      received += theirs.size();
    }
    meet();
    if (!aside_.empty()) std::memcpy(output_at(block.begin), aside_.data(), aside_.size());
    return received * element_size_;
  }

 private:
  std::vector<Interval> blocks_;
  std::vector<char> aside_;
};

}  // namespace

ThreadCommunicator::ThreadCommunicator(ThreadWorld& world, int64_t rank) : world_(world), rank_(rank) {}

std::unique_ptr<Collective> ThreadCommunicator::prepare(const CollectiveStep& step) {
  size_t size = step.group.size();
  TPC_CHECK(step.index >= 0 && step.index < static_cast<int64_t>(size) &&
                step.group[static_cast<size_t>(step.index)] == rank_,
            "{}: rank {} is not member {} of its group", describe(step), rank_, step.index);
  TPC_CHECK(step.input_regions.size() == size && step.output_regions.size() == size,
            "{}: {} and {} regions for {} members", describe(step), step.input_regions.size(),
            step.output_regions.size(), size);
  TPC_CHECK(step.input.type == step.output.type, "{}: {} becomes {}", describe(step), to_string(step.input.type),
            to_string(step.output.type));
  if (step.op == OpKind::kAllReduce) return std::make_unique<AllReduce>(step, world_);
  if (step.op == OpKind::kReduceScatter) return std::make_unique<ReduceScatter>(step, world_);
  TPC_CHECK(step.op == OpKind::kAllGather || step.op == OpKind::kAllToAll, "{} is not a collective", op_name(step.op));
  return std::make_unique<Exchange>(step, world_);
}

}  // namespace tpc
