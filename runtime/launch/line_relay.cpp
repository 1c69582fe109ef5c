#include "runtime/launch/line_relay.h"

#include <fmt/format.h>

namespace tpc {
namespace {

constexpr size_t kLongestLine = 65536;
// Beyond these nothing is remembered: a program that writes so much has no message of all ranks to say.
constexpr size_t kMostRemembered = 4096;

}  // namespace

void LineRelay::add(int64_t rank, std::string_view bytes) {
  std::string& line = begun_[rank];
  for (char c : bytes) {
    if (c != '\n') line += c;
    if (c != '\n' && line.size() < kLongestLine) continue;
    pass(rank, line);
    line.clear();
  }
}

void LineRelay::end(int64_t rank) {
  auto begun = begun_.find(rank);
  if (begun == begun_.end() || begun->second.empty()) return;
  pass(rank, begun->second);
  begun->second.clear();
}

void LineRelay::pass(int64_t rank, const std::string& line) {
  auto known = first_.find(line);
  if (known != first_.end() && known->second != rank) return;
  if (known == first_.end() && first_.size() < kMostRemembered) first_.emplace(line, rank);
  tell_(rank == 0 ? line + "\n" : fmt::format("[rank {}] {}\n", rank, line));
}

}  // namespace tpc
