/// What a rank says first to rank 0, and what rank 0 answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tpc {

constexpr uint32_t kStoreVersion = 2;

/// Who a process is. Texts have at most 1000 characters.
struct Hello {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::string run_id;
  int64_t restart = 0;
  /// All that ranks must agree on: the plan, the options that change what is computed, the version of this program, and
  /// of NCCL ("" where it is not used).
  std::string plan_hash;
  std::string options;
  std::string build;
  std::string nccl;
  bool operator==(const Hello&) const = default;
};

/// 8 bytes "tpcstore", the version, the length of what follows, and that: the rank first, in every version.
std::string encode_hello(const Hello& hello);

/// What the bytes that a connection begins with are.
struct HelloReading {
  enum class State : uint8_t { kIncomplete, kStranger, kOtherVersion, kHello };
  State state = State::kIncomplete;
  Hello hello;           ///< of kHello; of kOtherVersion the rank only
  uint32_t version = 0;  ///< of kOtherVersion
  size_t length = 0;     ///< bytes of the hello
};

/// Bytes of any kind. Those that cannot become a hello are a stranger's at once, however few.
HelloReading read_hello(std::string_view bytes);

/// Whether `other` is of the same run as rank 0.
bool is_same_run(const Hello& rank_0, const Hello& other);

/// What is wrong with a process of the same run, naming its rank: "rank 2 has another plan than rank 0", "NCCL 2.27.3
/// on rank 1, 2.28.9 on rank 0"; "" when nothing is.
std::string mismatch(const Hello& rank_0, const Hello& other);

/// Rank 0's answer.
struct Answer {
  enum class Verdict : uint8_t {
    kAccepted,
    kOtherRun,  ///< perhaps the run before this one, which is about to end
    kRefused,   ///< for good
  };
  Verdict verdict = Verdict::kAccepted;
  std::string reason;
};

/// Begins with the magic and version of the hello. read_answer_head: the length of the reason that follows the first
/// kAnswerHead bytes, or nullopt when these are no answer.
constexpr size_t kAnswerHead = 17;
std::string encode_answer(const Answer& answer);
std::optional<size_t> read_answer_head(std::string_view head, Answer& answer);

}  // namespace tpc
