#include "runtime/launch/frame.h"

#include <fmt/format.h>

#include "compiler/core/check.h"
#include "runtime/launch/wire.h"

namespace tpc {
namespace {

constexpr size_t kFrameHead = 5;

}  // namespace

std::string describe(const Round& round) {
  switch (round.kind) {
    case Round::Kind::kBarrier:
      return fmt::format("barrier \"{}\"", round.what);
    case Round::Kind::kBroadcast:
      return fmt::format("broadcast of \"{}\"", round.what);
    case Round::Kind::kAllGather:
      return fmt::format("all_gather of \"{}\"", round.what);
    case Round::Kind::kFinish:
      return "the end of the run";
  }
  TPC_UNREACHABLE("a round of kind {}", static_cast<int>(round.kind));
}

std::string encode_frame(Frame::Type type, std::string_view body) {
  WireWriter writer;
  writer.u32(static_cast<uint32_t>(body.size()));
  writer.byte(static_cast<uint8_t>(type));
  writer.raw(body);
  return writer.take();
}

std::string encode_round(const Round& round) {
  WireWriter writer;
  writer.byte(static_cast<uint8_t>(round.kind));
  writer.text(round.what);
  writer.i64(round.patience.count());
  writer.text(round.bytes);
  return writer.take();
}

std::optional<Round> decode_round(std::string_view bytes) {
  WireReader reader(bytes);
  Round round;
  uint8_t kind = reader.byte();
  round.kind = static_cast<Round::Kind>(kind);
  round.what = reader.text();
  int64_t patience = reader.i64();
  round.patience = std::chrono::milliseconds(patience);
  round.bytes = reader.text();
  bool is_good = reader.is_complete() && kind <= static_cast<uint8_t>(Round::Kind::kFinish) && patience >= 0 &&
                 patience <= INT32_MAX;
  if (!is_good) return std::nullopt;
  return round;
}

std::string encode_failure(const RunFailure& failure) {
  WireWriter writer;
  writer.byte(static_cast<uint8_t>(failure.kind));
  writer.i64(failure.rank);
  writer.i64(failure.teller);
  writer.text(failure.message);
  return writer.take();
}

std::optional<RunFailure> decode_failure(std::string_view bytes) {
  WireReader reader(bytes);
  RunFailure failure;
  uint8_t kind = reader.byte();
  failure.kind = static_cast<RunFailure::Kind>(kind);
  failure.rank = reader.i64();
  failure.teller = reader.i64();
  failure.message = reader.text();
  if (!reader.is_complete() || kind > static_cast<uint8_t>(RunFailure::Kind::kNoticed)) return std::nullopt;
  return failure;
}

std::string encode_texts(const std::vector<std::string>& texts) {
  WireWriter writer;
  writer.u32(static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) writer.text(text);
  return writer.take();
}

std::optional<std::vector<std::string>> decode_texts(std::string_view bytes) {
  WireReader reader(bytes);
  std::vector<std::string> texts;
  uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && reader.is_good(); ++i) texts.push_back(reader.text());
  if (!reader.is_complete()) return std::nullopt;
  return texts;
}

std::optional<Frame> FrameReader::next() {
  if (is_broken_ || buffer_.size() < kFrameHead) return std::nullopt;
  WireReader head(buffer_);
  size_t length = head.u32();
  uint8_t type = head.byte();
  is_broken_ = length > longest_ || type > static_cast<uint8_t>(Frame::Type::kFailure);
  if (is_broken_ || buffer_.size() < kFrameHead + length) return std::nullopt;
  Frame frame{static_cast<Frame::Type>(type), buffer_.substr(kFrameHead, length)};
  buffer_.erase(0, kFrameHead + length);
  return frame;
}

}  // namespace tpc
