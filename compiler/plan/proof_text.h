/// What a search proved, in words.
#pragma once

#include <string>

#include "compiler/plan/report.h"

namespace tpc {

/// "474 GB" or, by time, "12.3 ms" of picoseconds.
std::string price_text(int64_t price, bool is_time);
/// "12.3 ms".
std::string seconds_text(double seconds);

/// Lines about the proof, and about the time of collectives where the links are known; "" when there is neither.
std::string proof_text(const Report& report);

}  // namespace tpc
