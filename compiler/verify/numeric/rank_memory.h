/// The arena of one rank, with elements in place of bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/verify/numeric/field.h"

namespace tpc::verify {

/// The part of a tensor that a rank has made.
struct Part {
  Region region;
  std::vector<Element> data;
};

/// Holds for each tensor what was written last, until something is written over its bytes: by the plan's offsets, as in
/// the arena of a run. Reading what is not there, or as another part than was written, is a flaw of the plan.
class RankMemory {
 public:
  explicit RankMemory(const Plan& plan);

  /// Throws OpFault when the tensor's bytes hold something else, or another region of it.
  const Part& read(int tensor, const Region& region) const;
  /// nullptr: not there.
  const Part* find(int tensor) const;
  /// What overlaps is lost.
  void write(int tensor, Part part);
  /// A tensor that is `held` in another shape or name: where both lie at one place, both stay.
  void share(int tensor, int held, Part part);

 private:
  /// Bytes in use; several tensors where they are one in several shapes.
  struct Content {
    int64_t end = 0;
    std::vector<int> tensors;
  };

  int64_t begin_of(int tensor) const { return plan_.tensors[static_cast<size_t>(tensor)].offset; }
  int64_t end_of(int tensor) const;
  void lose_range(int64_t begin, int64_t end, int64_t but_at);

  const Plan& plan_;
  std::map<int64_t, Content> contents_;  ///< by offset; they do not overlap
  std::vector<Part> parts_;              ///< per tensor
  std::vector<bool> is_there_;           ///< per tensor
  std::vector<bool> was_written_;        ///< per tensor
};

}  // namespace tpc::verify
