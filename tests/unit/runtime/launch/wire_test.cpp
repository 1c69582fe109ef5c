// What is sent comes back; bytes of any other kind are refused, and never more than that.
#include <doctest/doctest.h>

#include <random>

#include "runtime/launch/frame.h"
#include "runtime/launch/hello.h"

namespace tpc {
namespace {

using std::chrono_literals::operator""ms;
using State = HelloReading::State;

Hello some_hello() { return {5, 8, "run \x01 \xff", 3, "0123456789abcdef", "--seed 0", "0.1.0", "2.28.9"}; }

std::string some_frames() {
  return encode_frame(Frame::Type::kBeat, "") +
         encode_frame(Frame::Type::kArrival, encode_round({Round::Kind::kAllGather, "losses", 70ms, "\0\1"})) +
         encode_frame(Frame::Type::kResult, encode_texts({"a", "", std::string(300, 'b')})) +
         encode_frame(Frame::Type::kFailure, encode_failure({RunFailure::Kind::kDied, 4, 0, "rank 4 has died"}));
}

std::string damaged(std::string bytes, std::mt19937& random) {
  auto below = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  for (size_t changes = 1 + below(3); changes > 0 && !bytes.empty(); --changes) {
    size_t at = below(bytes.size());
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(20)));
        break;
      default:
        bytes[at] = static_cast<char>(below(2) == 0 ? 0xff : 0);
    }
  }
  return bytes;
}

TEST_CASE("wire: a hello reads back, from any number of its bytes on") {
  std::string bytes = encode_hello(some_hello());
  for (size_t count = 0; count < bytes.size(); ++count) {
    CHECK(read_hello(std::string_view(bytes).substr(0, count)).state == State::kIncomplete);
  }
  HelloReading reading = read_hello(bytes + "more");
  CHECK(reading.state == State::kHello);
  CHECK(reading.hello == some_hello());
  CHECK(reading.length == bytes.size());
}

TEST_CASE("wire: a stranger is known by his first wrong byte") {
  CHECK(read_hello("t").state == State::kIncomplete);
  CHECK(read_hello("x").state == State::kStranger);
  CHECK(read_hello("tpcstorE").state == State::kStranger);
  CHECK(read_hello(std::string("tpcstore\1\0\0\0\1\0\0\0", 16)).state == State::kStranger);
  CHECK(read_hello(std::string("tpcstore\1\0\0\0\0\0\0\1", 16)).state == State::kStranger);
}

TEST_CASE("wire: damaged hellos are read, waited for, or a stranger's") {
  std::mt19937 random(11);
  std::string whole = encode_hello(some_hello());
  int num_read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = damaged(whole, random);
    HelloReading reading = read_hello(bytes);
    if (reading.state == State::kHello) {
      ++num_read;
      // What was read is what would be sent.
      CHECK(encode_hello(reading.hello) == bytes.substr(0, reading.length));
      mismatch(some_hello(), reading.hello);
    }
    if (reading.state == State::kIncomplete) CHECK(bytes.size() < 16 + 8192);
  }
  CHECK(num_read > 100);
}

TEST_CASE("wire: frames read back however they are cut") {
  std::string bytes = some_frames();
  for (size_t piece : {size_t{1}, size_t{3}, size_t{7}, bytes.size()}) {
    FrameReader reader(1000);
    std::vector<Frame> frames;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      while (std::optional<Frame> frame = reader.next()) frames.push_back(std::move(*frame));
    }
    REQUIRE(frames.size() == 4);
    CHECK(frames[0].body.empty());
    std::optional<Round> round = decode_round(frames[1].body);
    REQUIRE(round.has_value());
    CHECK(describe(*round) == "all_gather of \"losses\"");
    CHECK(round->patience == 70ms);
    CHECK(decode_texts(frames[2].body) == std::vector<std::string>{"a", "", std::string(300, 'b')});
    CHECK(decode_failure(frames[3].body) == RunFailure{RunFailure::Kind::kDied, 4, 0, "rank 4 has died"});
    CHECK_FALSE(reader.is_broken());
  }
}

TEST_CASE("wire: damaged frames end or are refused") {
  std::mt19937 random(13);
  std::string whole = some_frames();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = damaged(whole, random);
    FrameReader reader(1000);
    reader.append(bytes);
    size_t count = 0;
    while (std::optional<Frame> frame = reader.next()) {
      ++count;
      CHECK(frame->body.size() <= 1000);
      if (std::optional<Round> round = decode_round(frame->body)) {
        CHECK(encode_round(*round) == frame->body);
        CHECK_FALSE(describe(*round).empty());
      }
      if (std::optional<RunFailure> failure = decode_failure(frame->body)) {
        CHECK(encode_failure(*failure) == frame->body);
      }
      if (std::optional<std::vector<std::string>> texts = decode_texts(frame->body)) {
        CHECK(encode_texts(*texts) == frame->body);
      }
    }
    CHECK(count * 5 <= bytes.size());
  }
}

TEST_CASE("wire: answers read back, other replies are none") {
  Answer answer;
  std::string bytes = encode_answer({Answer::Verdict::kRefused, "rank 2 has another plan"});
  CHECK(read_answer_head(bytes.substr(0, kAnswerHead), answer) == bytes.size() - kAnswerHead);
  CHECK(answer.verdict == Answer::Verdict::kRefused);
  CHECK_FALSE(read_answer_head("HTTP/1.1 400 Bad ", answer).has_value());
  bytes[12] = 9;
  CHECK_FALSE(read_answer_head(bytes.substr(0, kAnswerHead), answer).has_value());
}

}  // namespace
}  // namespace tpc
