#include "runtime/launch/store_member.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <thread>

#include "compiler/core/check.h"

namespace tpc {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(500);
constexpr auto kLongestTry = std::chrono::seconds(5);

/// Rank 0's answer to the hello, or what came instead of one in `reason`.
std::optional<Answer> greet(const Descriptor& socket, const Hello& own, Deadline deadline, std::string& reason) {
  std::string bytes;
  if (!send_all(socket, encode_hello(own), deadline) || !receive_exactly(socket, kAnswerHead, bytes, deadline)) {
    reason = Clock::now() < deadline ? "the connection was closed" : "what listens there does not answer";
    return std::nullopt;
  }
  Answer answer;
  std::optional<size_t> length = read_answer_head(bytes, answer);
  if (!length) {
    reason = "another program listens there; TPC_MEETING=host:port names another place";
    return std::nullopt;
  }
  if (!receive_exactly(socket, *length, answer.reason, deadline)) {
    reason = "the connection was closed";
    return std::nullopt;
  }
  return answer;
}

Descriptor reach_rank_0(const Hello& own, const MeetingPoint& point, std::chrono::milliseconds patience) {
  Deadline deadline = Clock::now() + patience;
  // Ranks that start together do not all come back together.
  auto pause = kFirstPause + std::chrono::milliseconds(own.rank % 16);
  std::string reason = "no answer";
  do {
    Descriptor socket = connect_to(point, std::min(deadline, Clock::now() + kLongestTry), reason);
    if (socket.is_open()) {
      std::optional<Answer> answer = greet(socket, own, deadline, reason);
      if (answer && answer->verdict == Answer::Verdict::kAccepted) return socket;
      if (answer && answer->verdict == Answer::Verdict::kRefused) {
        throw DeviceError(fmt::format("rank 0 refuses this process: {}", answer->reason));
      }
      if (answer) reason = answer->reason;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, std::max(deadline - Clock::now(), Clock::duration{})));
    pause = std::min(pause * 3 / 2, kLongestPause);
  } while (Clock::now() < deadline);
  throw DeviceError(fmt::format("rank {} did not reach rank 0 at {} in {} s: {}", own.rank, to_string(point),
                                static_cast<double>(patience.count()) / 1000, reason));
}

}  // namespace

StoreMember::StoreMember(Mailbox& mailbox, const Hello& own, const MeetingPoint& point, StorePatience patience)
    : mailbox_(mailbox), patience_(patience), heart_(patience.silence) {
  Descriptor socket = reach_rank_0(own, point, patience.meeting);
  size_t longest = std::max(kMostBroadcast, kMostGathered * static_cast<size_t>(own.world_size)) + kMostFraming;
  center_ = std::make_unique<Connection>(std::move(socket), longest + 4 * static_cast<size_t>(own.world_size));
  answer_deadline_ = Clock::now() + patience.meeting + patience.silence;
}

void StoreMember::run() {
  while (!is_done_) turn();
  center_.reset();
  mailbox_.close();
}

void StoreMember::turn() {
  Deadline next = heart_.next_beat();
  if (answer_deadline_) next = std::min(next, *answer_deadline_);
  if (own_failure_) next = std::min(next, own_failure_deadline_);
  std::array<pollfd, 2> entries = {{{mailbox_.descriptor(), POLLIN, 0}, {center_->descriptor(), center_->events(), 0}}};
  poll(entries.data(), entries.size(), milliseconds_until(next));

  Clock::duration stopped = heart_.stopped(Clock::now());
  center_->forgive(stopped);
  if (answer_deadline_) *answer_deadline_ += stopped;
  obey(mailbox_.take());
  hear();
  if (!is_done_) check_time(Clock::now());
}

void StoreMember::obey(Mailbox::Orders orders) {
  if (orders.stop) is_done_ = true;
  if (orders.round) {
    center_->send(Frame::Type::kArrival, encode_round(*orders.round));
    is_finishing_ = orders.round->kind == Round::Kind::kFinish;
    answer_deadline_ = Clock::now() + orders.round->patience + patience_.silence;
  }
  if (orders.failure) {
    center_->send(Frame::Type::kFailure, encode_failure(*orders.failure));
    own_failure_ = std::move(orders.failure);
    own_failure_deadline_ = Clock::now() + kAnswerPatience;
  }
}

void StoreMember::hear() {
  bool goes_on = center_->exchange();
  while (std::optional<Frame> frame = is_done_ ? std::nullopt : center_->next()) {
    if (frame->type == Frame::Type::kBeat) continue;
    std::optional<std::vector<std::string>> result;
    std::optional<RunFailure> failure;
    if (frame->type == Frame::Type::kResult) result = decode_texts(frame->body);
    if (frame->type == Frame::Type::kFailure) failure = decode_failure(frame->body);
    if (frame->type == Frame::Type::kWelcome) {
      answer_deadline_.reset();
      mailbox_.welcome();
    } else if (result) {
      answer_deadline_.reset();
      mailbox_.give(std::move(*result));
      if (is_finishing_) is_done_ = true;
    } else if (failure) {
      end(std::move(*failure));
    } else {
      goes_on = false;
    }
  }
  if (goes_on || is_done_) return;
  lose_rank_0(RunFailure::Kind::kDied, "rank 0 has died (its connection broke)");
}

void StoreMember::check_time(Deadline now) {
  auto is_over = [&](std::chrono::milliseconds time) { return now - center_->last_heard() >= time; };
  if (is_over(patience_.silence) || (answer_deadline_ && now >= *answer_deadline_)) {
    bool is_silent = is_over(patience_.silence);
    lose_rank_0(RunFailure::Kind::kNoticed, is_silent
                                                ? fmt::format("rank 0 has not been heard of for {} s",
                                                              static_cast<double>(patience_.silence.count()) / 1000)
                                                : "rank 0 does not answer, though it lives");
  } else if (own_failure_ && now >= own_failure_deadline_) {
    end(*own_failure_);
  } else if (heart_.beats(now)) {
    center_->send(Frame::Type::kBeat);
  }
}

void StoreMember::lose_rank_0(RunFailure::Kind kind, std::string message) {
  // A rank that has failed itself knows why.
  end(own_failure_ ? *own_failure_ : RunFailure{kind, 0, 1, std::move(message)});
}

void StoreMember::end(RunFailure failure) {
  mailbox_.end(std::move(failure));
  is_done_ = true;
}

}  // namespace tpc
