#include "runtime/launch/store_center.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

// A rank that dies breaks other libraries' connections, too, and who used them says so. The death is the cause.
constexpr auto kSettling = std::chrono::milliseconds(100);
// Guests beyond the ranks that may still come: who scans ports takes no descriptors from them.
constexpr size_t kMostStrangers = 64;
constexpr auto kGuestPatience = std::chrono::seconds(10);

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

StoreCenter::StoreCenter(Mailbox& mailbox, Hello own, Descriptor listener, StorePatience patience)
    : mailbox_(mailbox),
      own_(std::move(own)),
      listener_(std::move(listener)),
      patience_(patience),
      heart_(patience.silence),
      meeting_deadline_(Clock::now() + patience.meeting),
      peers_(static_cast<size_t>(own_.world_size)) {
  if (listener_.is_open()) address_ = listening_address(listener_);
}

void StoreCenter::run() {
  if (world_size() == 1) begin();
  while (!is_done_) {
    try {
      turn();
    } catch (const DeviceError& error) {
      fail(RunFailure::Kind::kNoticed, 0, error.what());
    }
  }
  mailbox_.close();
}

void StoreCenter::turn() {
  wait_for_events();
  Deadline now = Clock::now();
  Clock::duration stopped = heart_.stopped(now);
  if (stopped > Clock::duration::zero()) {
    for (auto& peer : peers_) {
      if (peer) peer->forgive(stopped);
    }
    meeting_deadline_ += stopped;
    if (round_) round_->deadline += stopped;
  }
  obey(mailbox_.take());
  hear_peers();
  take_guests();
  hear_guests();
  check_time(Clock::now());
}

void StoreCenter::wait_for_events() {
  std::vector<pollfd> entries = {{mailbox_.descriptor(), POLLIN, 0}};
  if (listener_.is_open()) entries.push_back({listener_.number(), POLLIN, 0});
  for (const Guest& guest : guests_) entries.push_back({guest.socket.number(), POLLIN, 0});
  const size_t first_peer = entries.size();
  std::vector<int64_t> ranks;
  for (int64_t rank = 1; rank < world_size(); ++rank) {
    const auto& peer = peers_[static_cast<size_t>(rank)];
    if (!peer) continue;
    entries.push_back({peer->descriptor(), peer->events(), 0});
    ranks.push_back(rank);
  }
  poll(entries.data(), entries.size(), milliseconds_until(next_deadline()));
  ready_.clear();
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (entries[first_peer + i].revents != 0) ready_.push_back(ranks[i]);
  }
}

Deadline StoreCenter::next_deadline() const {
  Deadline next = heart_.next_beat();
  if (state_ == State::kMeeting) next = std::min(next, meeting_deadline_);
  if (state_ == State::kClosing) next = std::min(next, closing_deadline_);
  if (round_) next = std::min(next, round_->deadline);
  if (unsettled_) next = std::min(next, settled_at_);
  return next;
}

void StoreCenter::obey(Mailbox::Orders orders) {
  if (orders.stop) is_done_ = true;
  if (orders.failure) fail_later(std::move(*orders.failure));
  if (orders.round) arrive(0, std::move(*orders.round));
}

void StoreCenter::take_guests() {
  while (listener_.is_open()) {
    Descriptor socket = accept_from(listener_);
    if (!socket.is_open()) return;
    if (guests_.size() >= static_cast<size_t>(world_size()) + kMostStrangers) guests_.erase(guests_.begin());
    guests_.push_back({std::move(socket), "", Clock::now()});
  }
}

void StoreCenter::hear_guests() {
  // Whoever ends the meeting sends the others away.
  for (size_t i = 0; i < guests_.size();) {
    Guest guest = std::move(guests_[i]);
    guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!hear(guest)) continue;
    guests_.insert(guests_.begin() + static_cast<std::ptrdiff_t>(i), std::move(guest));
    ++i;
  }
}

bool StoreCenter::hear(Guest& guest) {
  std::array<char, 4096> buffer;
  while (true) {
    ssize_t count = recv(guest.socket.number(), buffer.data(), buffer.size(), 0);
    if (count == 0) return false;
    if (count < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
      return Clock::now() - guest.last_heard < kGuestPatience;
    }
    guest.last_heard = Clock::now();
    guest.bytes.append(buffer.data(), static_cast<size_t>(count));
    HelloReading reading = read_hello(guest.bytes);
    if (reading.state == HelloReading::State::kStranger) return false;
    if (reading.state == HelloReading::State::kIncomplete) continue;
    admit(guest, reading);
    return false;
  }
}

void StoreCenter::admit(Guest& guest, const HelloReading& reading) {
  const Hello& hello = reading.hello;
  std::string wrong;
  if (reading.state == HelloReading::State::kOtherVersion) {
    wrong = fmt::format("rank {} is of another build (its control store is of version {}, rank 0's of {})", hello.rank,
                        reading.version, kStoreVersion);
  } else if (!is_same_run(own_, hello)) {
    refuse(guest, Answer::Verdict::kOtherRun,
           fmt::format("rank 0 at {} is of run \"{}\", start {}", address_, own_.run_id, own_.restart));
    return;
  } else {
    wrong = mismatch(own_, hello);
  }
  bool is_there = wrong.empty() && (hello.rank == 0 || peers_[static_cast<size_t>(hello.rank)] != nullptr);
  if (is_there) wrong = fmt::format("two processes say that they are rank {}", hello.rank);
  if (!wrong.empty()) {
    refuse(guest, Answer::Verdict::kRefused, wrong);
    fail(RunFailure::Kind::kNoticed, hello.rank, wrong);
    return;
  }
  auto peer = std::make_unique<Connection>(std::move(guest.socket), kMostBroadcast + kMostFraming,
                                           std::string_view(guest.bytes).substr(reading.length));
  peer->send(std::make_shared<const std::string>(encode_answer({})));
  peer->exchange();
  peers_[static_cast<size_t>(hello.rank)] = std::move(peer);
  if (++num_peers_ + 1 == world_size()) begin();
}

void StoreCenter::refuse(const Guest& guest, Answer::Verdict verdict, const std::string& reason) {
  // Nothing was sent before, so the system takes it at once.
  std::string answer = encode_answer({verdict, reason});
  send_all(guest.socket, answer, Clock::now());
}

void StoreCenter::begin() {
  state_ = State::kRunning;
  listener_.close();
  guests_.clear();
  send_to_all(Frame::Type::kWelcome, "");
  mailbox_.welcome();
}

void StoreCenter::send_to_all(Frame::Type type, std::string_view body) {
  auto bytes = std::make_shared<const std::string>(encode_frame(type, body));
  for (auto& peer : peers_) {
    if (peer) peer->send(bytes);
  }
}

void StoreCenter::hear_peers() {
  for (int64_t rank : ready_) {
    if (peers_[static_cast<size_t>(rank)]) hear(rank);
  }
}

void StoreCenter::hear(int64_t rank) {
  Connection& peer = *peers_[static_cast<size_t>(rank)];
  bool goes_on = peer.exchange();
  while (std::optional<Frame> frame = peer.next()) {
    if (state_ == State::kClosing || frame->type == Frame::Type::kBeat) continue;
    std::optional<Round> round;
    std::optional<RunFailure> failure;
    if (frame->type == Frame::Type::kArrival) round = decode_round(frame->body);
    if (frame->type == Frame::Type::kFailure) failure = decode_failure(frame->body);
    if (round && state_ == State::kRunning) {
      arrive(rank, std::move(*round));
    } else if (failure && failure->kind == RunFailure::Kind::kFailed && failure->rank == rank) {
      fail_later(std::move(*failure));
    } else {
      goes_on = false;
    }
  }
  if (!goes_on) lose(rank);
}

void StoreCenter::lose(int64_t rank) {
  peers_[static_cast<size_t>(rank)] = nullptr;
  --num_peers_;
  if (state_ == State::kClosing) {
    if (num_peers_ == 0) is_done_ = true;
  } else if (unsettled_ && unsettled_->rank == rank) {
    end(*unsettled_);
  } else {
    fail(RunFailure::Kind::kDied, rank, fmt::format("rank {} has died (its connection to rank 0 broke)", rank));
  }
}

void StoreCenter::arrive(int64_t rank, Round round) {
  if (state_ != State::kRunning) return;
  Deadline deadline = Clock::now() + round.patience;
  std::string brought = std::exchange(round.bytes, "");
  if (!round_) {
    round_ = Meeting{round, rank, rank, deadline, {}, 0};
    round_->bytes.resize(peers_.size());
  }
  std::optional<std::string>& bytes = round_->bytes[static_cast<size_t>(rank)];
  if (bytes || round.kind != round_->round.kind || round.what != round_->round.what) {
    fail(RunFailure::Kind::kNoticed, rank,
         fmt::format("rank {} is at {}, rank {} at {}", rank, describe(round), round_->first, describe(round_->round)));
    return;
  }
  bytes = std::move(brought);
  if (deadline < round_->deadline) {
    round_->deadline = deadline;
    round_->least_patient = rank;
    round_->round.patience = round.patience;
  }
  if (++round_->num_arrived == world_size()) complete_round();
}

void StoreCenter::complete_round() {
  std::vector<std::string> result;
  Round::Kind kind = round_->round.kind;
  if (kind == Round::Kind::kBroadcast) result.push_back(std::move(*round_->bytes[0]));
  if (kind == Round::Kind::kAllGather) {
    for (std::optional<std::string>& bytes : round_->bytes) result.push_back(std::move(*bytes));
  }
  round_.reset();
  send_to_all(Frame::Type::kResult, encode_texts(result));
  mailbox_.give(std::move(result));
  if (kind == Round::Kind::kFinish) start_closing();
  // Not at the next event: a result that waits is waited for by all.
  for (auto& peer : peers_) {
    if (peer) peer->exchange();
  }
}

void StoreCenter::check_time(Deadline now) {
  if (state_ == State::kClosing) {
    if (now >= closing_deadline_) is_done_ = true;
    return;
  }
  if (unsettled_) {
    if (now >= settled_at_) end(*unsettled_);
    return;
  }
  if (state_ == State::kMeeting && now >= meeting_deadline_) {
    fail(RunFailure::Kind::kNoticed, 0, missing_at_meeting());
    return;
  }
  if (round_ && now >= round_->deadline) {
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < world_size(); ++rank) {
      if (!round_->bytes[static_cast<size_t>(rank)]) missing.push_back(rank);
    }
    fail(RunFailure::Kind::kNoticed, missing.front(),
         fmt::format("rank {} waited {} s at {}; missing: {}", round_->least_patient, seconds(round_->round.patience),
                     describe(round_->round), rank_list(missing)));
    return;
  }
  for (int64_t rank = 1; rank < world_size(); ++rank) {
    Connection* peer = peers_[static_cast<size_t>(rank)].get();
    if (peer == nullptr || now - peer->last_heard() < patience_.silence) continue;
    fail(RunFailure::Kind::kNoticed, rank,
         fmt::format("rank {} has not been heard of for {} s", rank, seconds(patience_.silence)));
    // It finds the failure if it ever goes on; nobody waits for that.
    peer->exchange();
    lose(rank);
    return;
  }
  if (heart_.beats(now)) send_to_all(Frame::Type::kBeat, "");
}

std::string StoreCenter::missing_at_meeting() const {
  std::vector<int64_t> missing;
  for (int64_t rank = 1; rank < world_size(); ++rank) {
    if (!peers_[static_cast<size_t>(rank)]) missing.push_back(rank);
  }
  return fmt::format("{} did not come to rank 0 at {} in {} s", rank_list(missing), address_,
                     seconds(patience_.meeting));
}

void StoreCenter::fail_later(RunFailure failure) {
  if (state_ == State::kClosing || unsettled_) return;
  unsettled_ = std::move(failure);
  settled_at_ = Clock::now() + kSettling;
}

void StoreCenter::fail(RunFailure::Kind kind, int64_t rank, std::string message) {
  end({kind, rank, 0, std::move(message)});
}

void StoreCenter::end(RunFailure failure) {
  if (state_ == State::kClosing) return;
  unsettled_.reset();
  round_.reset();
  send_to_all(Frame::Type::kFailure, encode_failure(failure));
  mailbox_.end(std::move(failure));
  start_closing();
}

void StoreCenter::start_closing() {
  state_ = State::kClosing;
  closing_deadline_ = Clock::now() + kAnswerPatience;
  listener_.close();
  guests_.clear();
  for (auto& peer : peers_) {
    if (peer) peer->end_sending();
  }
  if (num_peers_ == 0) is_done_ = true;
}

std::string rank_list(const std::vector<int64_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  constexpr size_t kMostParts = 8;
  std::vector<std::string> parts;
  size_t i = 0;
  while (i < ranks.size() && parts.size() < kMostParts) {
    size_t end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    // Two neighbours are no range.
    if (end == i + 1) end = i;
    parts.push_back(end == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end]));
    i = end + 1;
  }
  if (i < ranks.size()) parts.push_back(fmt::format("{} more", ranks.size() - i));
  std::string text = "ranks " + parts.front();
  for (size_t p = 1; p < parts.size(); ++p) text += (p + 1 == parts.size() ? " and " : ", ") + parts[p];
  return text;
}

}  // namespace tpc
