/// This process' place among those of a run: alone, or one rank of several.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"
#include "runtime/launch/control_store.h"
#include "runtime/launch/launch_environment.h"

namespace tpc {

class RunPeers {
 public:
  /// Alone.
  RunPeers() = default;
  /// One rank of `launch.world_size`; returns when all have met. See ControlStore for errors.
  RunPeers(const Launch& launch, const StoreIdentity& identity, std::chrono::milliseconds patience,
           ControlStore::WhenStuck when_stuck);

  /// nullopt: all ranks of the run are here.
  std::optional<int64_t> rank() const;
  /// The one that prints.
  bool is_first() const { return rank().value_or(0) == 0; }
  /// The rank's number among those of this host.
  int64_t local_rank() const { return local_rank_; }

  /// What the first brings, on all ranks.
  std::string from_first(std::string_view what, std::string bytes);
  /// What every rank brings, by rank; of a process that is alone, its own.
  std::vector<std::string> gather(std::string_view what, std::string text);
  /// Bytes of all ranks' traffic, from those of this process.
  Traffic sum(const Traffic& own);
  /// Waits until all are done.
  void finish();

  /// Throws when another rank has ended the run. From any thread.
  void check_run() const;
  /// Ends the run on all ranks; what this one tells its user, see ControlStore.
  std::optional<std::string> fail(const std::string& message);

 private:
  std::unique_ptr<ControlStore> store_;
  int64_t local_rank_ = 0;
  std::chrono::milliseconds patience_{60'000};
};

}  // namespace tpc
