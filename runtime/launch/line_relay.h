/// Passes on what many ranks write, so that it can be read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tpc {

/// Whole lines only, those of every rank but 0 with the rank in front: "[rank 2] …". A line that another rank has
/// written as well is passed once: all ranks find the same mistake in a file.
class LineRelay {
 public:
  /// `tell` gets lines with their end.
  explicit LineRelay(std::function<void(std::string_view)> tell) : tell_(std::move(tell)) {}

  void add(int64_t rank, std::string_view bytes);
  /// The rank writes no more: a line that it has begun is passed.
  void end(int64_t rank);
  bool has_spoken(int64_t rank) const { return begun_.count(rank) > 0; }

 private:
  void pass(int64_t rank, const std::string& line);

  std::function<void(std::string_view)> tell_;
  std::map<int64_t, std::string> begun_;
  std::map<std::string, int64_t, std::less<>> first_;  // who wrote a line first
};

}  // namespace tpc
