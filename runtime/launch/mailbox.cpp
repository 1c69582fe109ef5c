#include "runtime/launch/mailbox.h"

#include <unistd.h>

#include <array>
#include <utility>

namespace tpc {

void Mailbox::wake() const {
  // A full pipe wakes as well.
  char byte = 0;
  [[maybe_unused]] ssize_t count = write(pipe_.write_end.number(), &byte, 1);
}

void Mailbox::post(Round round) {
  {
    std::lock_guard lock(mutex_);
    orders_.round = std::move(round);
    result_.reset();
  }
  wake();
}

void Mailbox::post(RunFailure failure) {
  {
    std::lock_guard lock(mutex_);
    if (!orders_.failure) orders_.failure = std::move(failure);
  }
  wake();
}

void Mailbox::post_stop() {
  {
    std::lock_guard lock(mutex_);
    orders_.stop = true;
    is_stopped_ = true;
  }
  changed_.notify_all();
  wake();
}

bool Mailbox::wait_for_welcome() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_welcome_ || failure_ || is_closed_; });
  return is_welcome_ && !failure_;
}

std::optional<std::vector<std::string>> Mailbox::wait_for_result() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return result_ || failure_ || is_closed_; });
  return std::exchange(result_, std::nullopt);
}

void Mailbox::wait_for_close() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_closed_; });
}

bool Mailbox::wait_for_stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return is_stopped_; });
}

std::optional<RunFailure> Mailbox::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool Mailbox::is_closed() const {
  std::lock_guard lock(mutex_);
  return is_closed_;
}

Mailbox::Orders Mailbox::take() {
  std::array<char, 64> bytes;
  while (read(pipe_.read_end.number(), bytes.data(), bytes.size()) > 0) {
  }
  std::lock_guard lock(mutex_);
  return std::exchange(orders_, {});
}

void Mailbox::welcome() {
  std::lock_guard lock(mutex_);
  is_welcome_ = true;
  changed_.notify_all();
}

void Mailbox::give(std::vector<std::string> result) {
  std::lock_guard lock(mutex_);
  result_ = std::move(result);
  changed_.notify_all();
}

void Mailbox::end(RunFailure failure) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

void Mailbox::close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

}  // namespace tpc
