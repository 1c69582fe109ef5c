/// Which rank this process is: what a launcher tells in environment variables.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/launch/meeting_point.h"

namespace tpc {

/// Environment variables by name. One that is set to "" counts as not set.
using Environment = std::map<std::string, std::string>;

/// Of this process.
Environment process_environment();

/// What the command line says of the launch; it wins over the environment.
struct LaunchFlags {
  std::optional<int64_t> rank;
  std::optional<int64_t> world_size;
  std::optional<int64_t> local_rank;
  /// As the user wrote it, host:port.
  std::optional<std::string> meeting;
};

/// One process of a run of several.
struct Launch {
  int64_t rank = 0;
  int64_t world_size = 1;
  /// Among the ranks of this host.
  int64_t local_rank = 0;
  /// Ranks of this host; 0 where the launcher does not tell.
  int64_t local_size = 0;
  /// Who told: "the command line", "tprun --ranks", "TPC_RANK", "torchrun", "RANK and WORLD_SIZE", "Open MPI", "MPICH",
  /// "MVAPICH", "SLURM".
  std::string source;
  /// Where rank 0 listens. Absent only in a world of one rank.
  std::optional<MeetingPoint> meeting;
  /// The same for all ranks of a run and, where the launcher gives one, for no other run; may be "".
  std::string run_id;
  /// How often the launcher has started the run anew.
  int64_t restart = 0;
  /// Rank 0 only: a descriptor that listens at `meeting` already; -1: none.
  int listener = -1;

  /// Started by ProcessStarter, which tells how a rank died and counts on kHeardOfFailure.
  bool is_started_by_tprun() const { return source == "tprun --ranks"; }
};

/// The variables by which ProcessStarter tells a rank what it is, for a Launch of it.
Environment variables_of(const Launch& launch);

/// The launch that flags and variables describe, or nullopt when this process was not launched as one of several. Who
/// is asked first: flags, TPC_*, torchrun, Open MPI, MPICH and its kin, MVAPICH, PMIx, a SLURM step. TPC_MEETING and
/// TPC_RUN_ID win over what the others say of these. docs/launching.md has all variables.
///
/// UserError without a place: a set is partial, contradicts itself or another launcher's, or names no meeting point. It
/// names the variables found and those missing.
std::optional<Launch> find_launch(const Environment& environment, const LaunchFlags& flags = {});

}  // namespace tpc
