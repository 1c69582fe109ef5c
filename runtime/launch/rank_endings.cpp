#include "runtime/launch/rank_endings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tpc {
namespace {

// As shells count.
constexpr int kSignalBase = 128;

bool is_bad(const RankEnding& ending) { return ending.exit_code != 0 || ending.signal != 0; }

bool only_heard(const RankEnding& ending) {
  bool is_silent = ending.exit_code == kDeviceError && !ending.has_spoken;
  return ending.signal == 0 && (ending.exit_code == kHeardOfFailure || is_silent);
}

StarterOutcome outcome_of_cause(const RankEnding& cause) {
  if (cause.signal != 0) {
    return {kDeviceError,
            fmt::format("rank {} was killed by signal {} ({})", cause.rank, cause.signal, strsignal(cause.signal))};
  }
  if (cause.has_spoken) return {cause.exit_code, ""};
  return {cause.exit_code, fmt::format("rank {} ended with code {}", cause.rank, cause.exit_code)};
}

}  // namespace

StarterOutcome outcome_of(const std::vector<RankEnding>& endings, int interrupted) {
  if (std::none_of(endings.begin(), endings.end(), is_bad)) return {};
  if (interrupted != 0) return {kSignalBase + interrupted, ""};
  auto is_cause = [](const RankEnding& ending) { return is_bad(ending) && !ending.was_killed && !only_heard(ending); };
  auto cause = std::find_if(endings.begin(), endings.end(), is_cause);
  if (cause != endings.end()) return outcome_of_cause(*cause);
  auto killed = std::find_if(endings.begin(), endings.end(), [](const RankEnding& e) { return e.was_killed; });
  if (killed != endings.end()) {
    return {kDeviceError, fmt::format("rank {} did not end with the others and was killed", killed->rank)};
  }
  auto first = std::find_if(endings.begin(), endings.end(), is_bad);
  return {kDeviceError,
          fmt::format("the run was ended by a rank that did not say why; rank {} heard of it first", first->rank)};
}

}  // namespace tpc
