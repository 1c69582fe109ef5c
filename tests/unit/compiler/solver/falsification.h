/// Claims of optimality, and what can be wrong with them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "passes/solver/certificate.h"

namespace tpc {

/// "This assignment is optimal for this network, and the certificate proves it."
struct Claim {
  CostNetwork network;
  Certificate certificate;
  std::vector<int> assignment;

  /// What refute says, or "accepted".
  std::string verdict() const { return refute(certificate, network, assignment).value_or("accepted"); }
};

/// A change to an honest claim that makes the proof invalid, even where what it claims stays true.
struct Falsification {
  const char* name;
  bool (*apply)(Claim&, std::mt19937_64&);  ///< false where it does not apply
};

/// They may be combined.
const std::vector<Falsification>& falsifications();

/// Adds to the constant of some bucket, if there is one.
void raise_constant(Claim& claim, std::mt19937_64& random, Cost amount);

/// Adds to a feasible entry of the message of some bucket, and of that bucket alone; false if there is none.
bool raise_entry(Claim& claim, std::mt19937_64& random, Cost amount);

}  // namespace tpc
