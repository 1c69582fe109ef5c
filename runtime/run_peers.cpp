#include "runtime/run_peers.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "compiler/core/check.h"
#include "compiler/core/text_parts.h"

namespace tpc {
namespace {

// "3 1 4096;" for kind, phase and bytes.
std::string text_of(const Traffic& traffic) {
  std::string text;
  for (const auto& [key, bytes] : traffic) {
    text += fmt::format("{} {} {};", static_cast<int>(key.first), static_cast<int>(key.second), bytes);
  }
  return text;
}

void add_text(std::string_view text, Traffic& sum) {
  const char* at = text.data();
  const char* end = at + text.size();
  auto number = [&] {
    int64_t value = 0;
    auto [next, error] = std::from_chars(at, end, value);
    TPC_CHECK(error == std::errc() && next != end, "a rank's traffic reads \"{}\"", text);
    at = next + 1;
    return value;
  };
  while (at != end) {
    auto op = static_cast<OpKind>(number());
    auto phase = static_cast<Phase>(number());
    sum[{op, phase}] += number();
  }
}

}  // namespace

RunPeers::RunPeers(const Launch& launch, const StoreIdentity& identity, std::chrono::milliseconds patience,
                   ControlStore::WhenStuck when_stuck)
    : store_(
          std::make_unique<ControlStore>(launch, identity, StorePatience{.meeting = patience}, std::move(when_stuck))),
      local_rank_(launch.local_rank),
      patience_(patience) {}

std::optional<int64_t> RunPeers::rank() const { return store_ ? std::optional(store_->rank()) : std::nullopt; }

std::string RunPeers::from_first(std::string_view what, std::string bytes) {
  return store_ ? store_->broadcast(what, std::move(bytes), patience_) : bytes;
}

std::vector<std::string> RunPeers::gather(std::string_view what, std::string text) {
  if (!store_) return {std::move(text)};
  return store_->all_gather(what, std::move(text), patience_);
}

Traffic RunPeers::sum(const Traffic& own) {
  Traffic sum;
  for (const std::string& text : gather("bytes received", text_of(own))) add_text(text, sum);
  return sum;
}

void RunPeers::finish() {
  if (store_) store_->finish(patience_);
}

void RunPeers::check_run() const {
  if (store_) store_->throw_if_failed();
}

std::optional<std::string> RunPeers::fail(const std::string& message) {
  return store_ ? store_->fail(message) : message;
}

}  // namespace tpc
