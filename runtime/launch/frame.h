/// What rank 0 and the others send each other after the hello: frames of a length, a type and a body.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/launch/run_failure.h"

namespace tpc {

/// A place where all ranks meet: each brings bytes, and each gets all or some of them.
struct Round {
  enum class Kind : uint8_t { kBarrier, kBroadcast, kAllGather, kFinish };
  Kind kind = Kind::kBarrier;
  /// For messages: "the losses of step 7". The same on all ranks.
  std::string what;
  /// How long this rank waits.
  std::chrono::milliseconds patience{0};
  std::string bytes;
};

/// `barrier "start"`, for messages.
std::string describe(const Round& round);

struct Frame {
  enum class Type : uint8_t {
    kBeat,     ///< nothing but a sign of life
    kWelcome,  ///< rank 0: all ranks are there
    kArrival,  ///< a Round, from a rank that comes to it
    kResult,   ///< rank 0: what a round gives, a list of texts
    kFailure,  ///< a RunFailure: from the rank that fails, then from rank 0 to all
  };
  Type type = Type::kBeat;
  std::string body;
};

std::string encode_frame(Frame::Type type, std::string_view body);

std::string encode_round(const Round& round);
std::string encode_failure(const RunFailure& failure);
std::string encode_texts(const std::vector<std::string>& texts);
/// nullopt when the bytes are no such thing.
std::optional<Round> decode_round(std::string_view bytes);
std::optional<RunFailure> decode_failure(std::string_view bytes);
std::optional<std::vector<std::string>> decode_texts(std::string_view bytes);

/// Cuts received bytes into frames.
class FrameReader {
 public:
  /// Longer bodies than `longest` are no frames.
  explicit FrameReader(size_t longest) : longest_(longest) {}

  void append(std::string_view bytes) { buffer_ += bytes; }
  /// The next whole frame, or nullopt when there is none yet, or never will be (is_broken).
  std::optional<Frame> next();
  bool is_broken() const { return is_broken_; }

 private:
  size_t longest_;
  std::string buffer_;
  bool is_broken_ = false;
};

}  // namespace tpc
