/// The part of the certificate's check that is about removed labels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/solver/certificate.h"

namespace tpc {

/// nullopt when no assignment of the network with one of these labels is feasible: `network` is then what is left. Else
/// what is wrong. Throws nothing, whatever the list holds.
std::optional<std::string> remove_unsupported(const std::vector<Certificate::Unsupported>& unsupported,
                                              CostNetwork& network);

/// The same for the labels with which an assignment costs at least `bound`, by the messages of the reduction.
std::optional<std::string> remove_costly(const Certificate::Reduction& reduction, Cost bound, CostNetwork& network);

}  // namespace tpc
