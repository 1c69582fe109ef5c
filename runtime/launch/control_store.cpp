#include "runtime/launch/control_store.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <system_error>

#include "compiler/core/check.h"
#include "runtime/communicator.h"
#include "runtime/launch/store_center.h"
#include "runtime/launch/store_member.h"

namespace tpc {
namespace {

constexpr size_t kLongestName = 1000;
constexpr rlim_t kOtherDescriptors = 256;

/// Rank 0 holds a descriptor a rank, which may be more than a program usually gets.
void allow_descriptors(int64_t world_size) {
  rlimit limit{};
  rlim_t wanted = static_cast<rlim_t>(world_size) + kOtherDescriptors;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::unique_ptr<StoreSide> make_side(Mailbox& mailbox, const Launch& launch, const StoreIdentity& identity,
                                     StorePatience patience) {
  Hello own{launch.rank,        launch.world_size, launch.run_id,  launch.restart,
            identity.plan_hash, identity.options,  identity.build, identity.nccl};
  TPC_CHECK(launch.rank >= 0 && launch.rank < launch.world_size, "rank {} of {}", launch.rank, launch.world_size);
  if (launch.world_size == 1) return std::make_unique<StoreCenter>(mailbox, own, Descriptor(), patience);
  TPC_CHECK(launch.meeting || launch.listener >= 0, "{} ranks without a meeting point", launch.world_size);
  if (launch.rank > 0) return std::make_unique<StoreMember>(mailbox, own, *launch.meeting, patience);
  allow_descriptors(launch.world_size);
  Descriptor listener = launch.listener >= 0 ? inherited_listener(launch.listener)
                                             : listen_at(*launch.meeting, Clock::now() + patience.meeting);
  return std::make_unique<StoreCenter>(mailbox, own, std::move(listener), patience);
}

}  // namespace

ControlStore::ControlStore(const Launch& launch, const StoreIdentity& identity, StorePatience patience,
                           WhenStuck when_stuck)
    : rank_(launch.rank),
      world_size_(launch.world_size),
      starter_tells_deaths_(launch.is_started_by_tprun()),
      side_(make_side(mailbox_, launch, identity, patience)) {
  try {
    watch_ = std::thread([this, farewell = patience.farewell, when_stuck = std::move(when_stuck)] {
      side_->run();
      if (when_stuck && mailbox_.failure() && !mailbox_.wait_for_stop(farewell)) when_stuck(told_here());
    });
  } catch (const std::system_error& error) {
    throw DeviceError(fmt::format("the system gives no thread to watch the other ranks: {}", error.what()));
  }
  if (mailbox_.wait_for_welcome()) return;
  // The others hear of it before this process goes.
  mailbox_.wait_for_close();
  mailbox_.post_stop();
  watch_.join();
  throw_if_failed();
  throw RunEnded();
}

ControlStore::~ControlStore() {
  if (!mailbox_.is_closed()) fail(fmt::format("rank {} left the run before its end", rank_));
  mailbox_.post_stop();
  watch_.join();
}

void ControlStore::throw_if_failed() const {
  std::optional<RunFailure> failure = mailbox_.failure();
  if (!failure) return;
  // A failure of its own is told where it was met.
  bool is_noticed = failure->kind != RunFailure::Kind::kFailed;
  if (std::optional<std::string> told = told_here(); told && is_noticed) throw DeviceError(*told);
  throw RunEnded();
}

// Of the failure that ended the run, what this rank tells its user.
std::optional<std::string> ControlStore::told_here() const {
  std::optional<RunFailure> failure = mailbox_.failure();
  if (!failure || failure->teller != rank_) return std::nullopt;
  if (failure->kind == RunFailure::Kind::kDied && starter_tells_deaths_) return std::nullopt;
  return failure->message;
}

std::vector<std::string> ControlStore::meet(Round round, size_t most) {
  TPC_CHECK(round.bytes.size() <= most, "{} bytes for {}", round.bytes.size(), describe(round));
  TPC_CHECK(round.what.size() <= kLongestName, "a round's name of {} characters", round.what.size());
  round.patience = std::clamp(round.patience, std::chrono::milliseconds(0), std::chrono::milliseconds(INT32_MAX));
  size_t num_texts = 0;
  if (round.kind == Round::Kind::kBroadcast) num_texts = 1;
  if (round.kind == Round::Kind::kAllGather) num_texts = static_cast<size_t>(world_size_);
  throw_if_failed();
  TPC_CHECK(!mailbox_.is_closed(), "{} after the run has ended", describe(round));
  mailbox_.post(std::move(round));
  std::optional<std::vector<std::string>> result = mailbox_.wait_for_result();
  if (result) {
    TPC_CHECK(result->size() == num_texts, "{} texts where {} were to come", result->size(), num_texts);
    return std::move(*result);
  }
  throw_if_failed();
  throw RunEnded();
}

void ControlStore::barrier(std::string_view what, std::chrono::milliseconds patience) {
  meet({Round::Kind::kBarrier, std::string(what), patience, ""}, 0);
}

std::string ControlStore::broadcast(std::string_view what, std::string bytes, std::chrono::milliseconds patience) {
  if (rank_ != 0) bytes.clear();
  return meet({Round::Kind::kBroadcast, std::string(what), patience, std::move(bytes)}, StoreSide::kMostBroadcast)
      .front();
}

std::vector<std::string> ControlStore::all_gather(std::string_view what, std::string bytes,
                                                  std::chrono::milliseconds patience) {
  return meet({Round::Kind::kAllGather, std::string(what), patience, std::move(bytes)}, StoreSide::kMostGathered);
}

void ControlStore::finish(std::chrono::milliseconds patience) {
  meet({Round::Kind::kFinish, "", patience, ""}, 0);
  mailbox_.wait_for_close();
}

std::optional<std::string> ControlStore::fail(std::string message) {
  if (!mailbox_.is_closed()) {
    mailbox_.post(RunFailure{RunFailure::Kind::kFailed, rank_, rank_, message});
    mailbox_.wait_for_close();
  }
  return mailbox_.failure() ? told_here() : std::move(message);
}

}  // namespace tpc
