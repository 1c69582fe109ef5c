/// The lists in which SLURM names hosts and counts tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// The hosts of a list, in its order: "a[1,3-5],b" -> a1 a3 a4 a5 b; leading zeros stay ("n[08-10]" -> n08 n09 n10), a
/// name may have several brackets ("r[1-2]n[1-2]-ib") with the last one counting fastest. nullopt when it is no such
/// list, or names more than 65536 hosts.
std::optional<std::vector<std::string>> expand_host_list(std::string_view text);

/// The tasks on each host: "4(x2),3" -> 4 4 3. nullopt when it is no such list, or has more than 65536 hosts.
std::optional<std::vector<int64_t>> expand_task_counts(std::string_view text);

}  // namespace tpc
