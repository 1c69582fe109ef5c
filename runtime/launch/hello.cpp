#include "runtime/launch/hello.h"

#include <fmt/format.h>

#include "compiler/core/check.h"
#include "runtime/launch/wire.h"

namespace tpc {
namespace {

constexpr std::string_view kMagic = "tpcstore";
constexpr size_t kLongestText = 1000;
constexpr size_t kHead = 16;
constexpr uint32_t kLongestBody = 8192;

}  // namespace

std::string encode_hello(const Hello& hello) {
  WireWriter body;
  body.i64(hello.rank);
  body.i64(hello.world_size);
  body.i64(hello.restart);
  for (const std::string* text : {&hello.run_id, &hello.plan_hash, &hello.options, &hello.build, &hello.nccl}) {
    TPC_CHECK(text->size() <= kLongestText, "a text of {} characters in a hello", text->size());
    body.text(*text);
  }
  WireWriter whole;
  whole.raw(kMagic);
  whole.u32(kStoreVersion);
  whole.text(body.take());
  return whole.take();
}

HelloReading read_hello(std::string_view bytes) {
  HelloReading reading;
  auto stranger = [&] {
    reading.state = HelloReading::State::kStranger;
    return reading;
  };
  std::string_view begin = bytes.substr(0, kMagic.size());
  if (begin != kMagic.substr(0, begin.size())) return stranger();
  if (bytes.size() < kHead) return reading;
  WireReader head(bytes.substr(kMagic.size()));
  uint32_t version = head.u32();
  uint32_t length = head.u32();
  if (length > kLongestBody || length < sizeof(int64_t)) return stranger();
  if (bytes.size() < kHead + length) return reading;
  reading.length = kHead + length;

  WireReader body(bytes.substr(kHead, length));
  Hello& hello = reading.hello;
  hello.rank = body.i64();
  if (version != kStoreVersion) {
    reading.state = HelloReading::State::kOtherVersion;
    reading.version = version;
    return reading;
  }
  hello.world_size = body.i64();
  hello.restart = body.i64();
  for (std::string* text : {&hello.run_id, &hello.plan_hash, &hello.options, &hello.build, &hello.nccl}) {
    *text = body.text();
    if (text->size() > kLongestText) return stranger();
  }
  if (!body.is_complete()) return stranger();
  reading.state = HelloReading::State::kHello;
  return reading;
}

bool is_same_run(const Hello& rank_0, const Hello& other) {
  return rank_0.run_id == other.run_id && rank_0.restart == other.restart;
}

std::string mismatch(const Hello& rank_0, const Hello& other) {
  int64_t rank = other.rank;
  if (other.world_size != rank_0.world_size) {
    return fmt::format("rank {} counts {} ranks, rank 0 counts {}", rank, other.world_size, rank_0.world_size);
  }
  if (rank < 0 || rank >= rank_0.world_size) {
    return fmt::format("a process says that it is rank {} of {}", rank, rank_0.world_size);
  }
  if (other.build != rank_0.build) {
    return fmt::format("rank {} is of another build ({}; rank 0: {})", rank, other.build, rank_0.build);
  }
  if (other.plan_hash != rank_0.plan_hash) return fmt::format("rank {} has another plan than rank 0", rank);
  if (other.options != rank_0.options) {
    return fmt::format("rank {} runs with {}, rank 0 with {}", rank, other.options, rank_0.options);
  }
  if (other.nccl != rank_0.nccl) {
    auto shown = [](const std::string& version) { return version.empty() ? "none" : version; };
    return fmt::format("NCCL {} on rank {}, {} on rank 0", shown(other.nccl), rank, shown(rank_0.nccl));
  }
  return "";
}

std::string encode_answer(const Answer& answer) {
  WireWriter writer;
  writer.raw(kMagic);
  writer.u32(kStoreVersion);
  writer.byte(static_cast<uint8_t>(answer.verdict));
  writer.text(std::string_view(answer.reason).substr(0, kLongestText));
  return writer.take();
}

std::optional<size_t> read_answer_head(std::string_view head, Answer& answer) {
  WireReader reader(head);
  bool is_answer = reader.raw(kMagic.size()) == kMagic;
  reader.u32();
  uint8_t verdict = reader.byte();
  size_t length = reader.u32();
  if (!is_answer || !reader.is_complete() || length > kLongestText) return std::nullopt;
  if (verdict > static_cast<uint8_t>(Answer::Verdict::kRefused)) return std::nullopt;
  answer.verdict = static_cast<Answer::Verdict>(verdict);
  return length;
}

}  // namespace tpc
