#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "passes/solver/dual_bound.h"
#include "passes/solver/pruned_elimination.h"
#include "passes/solver/reduction.h"
#include "tests/unit/compiler/solver/falsification.h"
#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

using Random = std::mt19937_64;
using Reduction = Certificate::Reduction;

/// Claims whose certificates remove labels.
std::vector<Claim> honest_claims(Random& random, int count) {
  std::vector<Claim> claims;
  while (static_cast<int>(claims.size()) < count) {
    CostNetwork network = pick(random, 0, 3) == 0 ? random_layers(random, 4, 2) : random_network(random, 9);
    Solution solution = solve_by_bounds(network, {.max_entries = 4 << (2 * pick(random, 0, 2))});
    if (solution.status != SolveStatus::kOptimal || solution.certificate.reductions.empty()) continue;
    claims.push_back({std::move(network), solution.certificate, solution.assignment});
  }
  return claims;
}

template <typename Element>
Element* pick_element(std::vector<Element>& elements, Random& random) {
  return elements.empty() ? nullptr : &elements[random() % elements.size()];
}

/// Where in the messages of a factor those to this variable start; nullopt: the variable is not in its scope. For
/// claims whose first reduction neither removes labels before nor replaces factors.
std::optional<size_t> message_offset(const CostNetwork& network, size_t factor, int variable) {
  size_t offset = 0;
  for (int other : network.factors()[factor].scope) {
    if (other == variable) return offset;
    offset += static_cast<size_t>(network.num_labels(other));
  }
  return std::nullopt;
}

struct Change {
  const char* name;
  std::function<bool(Claim&, Reduction&, Random&)> apply;
};

const std::vector<Change> kChanges{
    {"raised message",
     [](Claim&, Reduction& r, Random& random) {
       std::vector<Cost>* messages = pick_element(r.messages, random);
       Cost* message = messages == nullptr ? nullptr : pick_element(*messages, random);
       return message != nullptr && (*message += 1, true);
     }},
    {"message out of range",
     [](Claim&, Reduction& r, Random& random) {
       std::vector<Cost>* messages = pick_element(r.messages, random);
       Cost* message = messages == nullptr ? nullptr : pick_element(*messages, random);
       return message != nullptr && (*message = random() % 2 == 0 ? -kInfeasible - 1 : kInfeasible + 1, true);
     }},
    {"a message too few",
     [](Claim&, Reduction& r, Random& random) {
       std::vector<Cost>* messages = pick_element(r.messages, random);
       return messages != nullptr && !messages->empty() && (messages->pop_back(), true);
     }},
    {"messages of a factor missing",
     [](Claim&, Reduction& r, Random&) { return !r.messages.empty() && (r.messages.pop_back(), true); }},
    {"no messages", [](Claim&, Reduction& r, Random&) { return !r.messages.empty() && (r.messages.clear(), true); }},
    {"messages too low for a costly label",
     [](Claim& claim, Reduction& r, Random& random) {
       Certificate::Label* label = pick_element(r.costly, random);
       if (label == nullptr || !r.unsupported.empty() || !r.buckets.empty()) return false;
       if (&r != &claim.certificate.reductions.front()) return false;
       for (size_t f = 0; f < r.messages.size(); ++f) {
         std::optional<size_t> offset = message_offset(claim.network, f, label->variable);
         if (!offset) continue;
         r.messages[f][*offset + static_cast<size_t>(label->label)] -= kInfeasible / 4;
         return true;
       }
       return false;
     }},
    {"no such label removed",
     [](Claim&, Reduction& r, Random& random) {
       if (r.messages.empty()) return false;
       r.costly.push_back({0, random() % 2 == 0 ? -1 : 5});
       return true;
     }},
    {"label of no such variable removed",
     [](Claim& claim, Reduction& r, Random& random) {
       if (r.messages.empty()) return false;
       r.costly.push_back({random() % 2 == 0 ? -1 : claim.network.num_variables(), 0});
       return true;
     }},
    {"all labels of a variable removed",
     [](Claim& claim, Reduction& r, Random&) {
       if (r.messages.empty()) return false;
       for (int label = 0; label < claim.network.num_labels(0); ++label) r.costly.push_back({0, label});
       return true;
     }},
    {"unsupported label by no such factor",
     [](Claim&, Reduction& r, Random& random) {
       Certificate::Unsupported* u = pick_element(r.unsupported, random);
       return u != nullptr && (u->factor = random() % 2 == 0 ? -1 : 1000000, true);
     }},
    {"unsupported label by a factor of others",
     [](Claim& claim, Reduction& r, Random& random) {
       Certificate::Unsupported* u = pick_element(r.unsupported, random);
       if (u == nullptr || &r != &claim.certificate.reductions.front()) return false;
       for (size_t f = 0; f < claim.network.factors().size(); ++f) {
         if (message_offset(claim.network, f, u->removed.variable)) continue;
         u->factor = static_cast<int>(f);
         return true;
       }
       return false;
     }},
    {"label of the assignment called unsupported",
     [](Claim& claim, Reduction& r, Random& random) {
       if (&r != &claim.certificate.reductions.front() || claim.network.factors().empty()) return false;
       size_t f = random() % claim.network.factors().size();
       const std::vector<int>& scope = claim.network.factors()[f].scope;
       if (scope.empty()) return false;
       int label = claim.assignment[static_cast<size_t>(scope[0])];
       r.unsupported.insert(r.unsupported.begin(), {{scope[0], label}, static_cast<int>(f)});
       return true;
     }},
    {"raised constant",
     [](Claim&, Reduction& r, Random& random) {
       Certificate::Bucket* bucket = pick_element(r.buckets, random);
       return bucket != nullptr && (bucket->constant += 1, true);
     }},
    {"constant below zero",
     [](Claim&, Reduction& r, Random& random) {
       Certificate::Bucket* bucket = pick_element(r.buckets, random);
       return bucket != nullptr && (bucket->constant -= kInfeasible / 2, true);
     }},
    {"raised entries",
     [](Claim&, Reduction& r, Random& random) {
       Certificate::Bucket* bucket = pick_element(r.buckets, random);
       if (bucket == nullptr) return false;
       CostTable table = r.tables[static_cast<size_t>(bucket->table)];
       bool feasible = false;
       for (Cost& entry : table.entries) {
         feasible = feasible || entry < kInfeasible;
         if (entry < kInfeasible) ++entry;
       }
       bucket->table = static_cast<int>(r.tables.size());
       r.tables.push_back(table);
       return feasible;
     }},
    {"factor used twice",
     [](Claim&, Reduction& r, Random& random) {
       Certificate::Bucket* bucket = pick_element(r.buckets, random);
       if (bucket == nullptr || bucket->factors.empty()) return false;
       bucket->factors.push_back(bucket->factors.front());
       return true;
     }},
    {"message taken twice",
     [](Claim&, Reduction& r, Random&) {
       for (Certificate::Bucket& bucket : r.buckets) {
         if (bucket.messages.empty()) continue;
         bucket.messages.push_back(bucket.messages.front());
         return true;
       }
       return false;
     }},
    {"raised bound", [](Claim& claim, Reduction&, Random&) { return ++claim.certificate.bound, true; }},
};

TEST_CASE("certificate: every falsification of a reduction is refuted") {
  Random random(71);
  std::vector<Claim> claims = honest_claims(random, 150);
  for (const Claim& honest : claims) REQUIRE(honest.verdict() == "accepted");
  for (const Change& change : kChanges) {
    CAPTURE(change.name);
    int applied = 0;
    for (const Claim& honest : claims) {
      Claim claim = honest;
      Reduction* reduction = pick_element(claim.certificate.reductions, random);
      if (!change.apply(claim, *reduction, random)) continue;
      ++applied;
      CHECK_MESSAGE(claim.verdict() != "accepted", describe(claim.network));
    }
    CHECK(applied >= 10);
  }
}

TEST_CASE("certificate: falsifications of the elimination after a reduction are refuted") {
  Random random(72);
  std::vector<Claim> claims = honest_claims(random, 60);
  int applied = 0;
  for (const Falsification& falsification : falsifications()) {
    // These refer to the factors of the whole network.
    CAPTURE(falsification.name);
    if (std::string_view(falsification.name) == "no such factor") continue;
    for (const Claim& honest : claims) {
      Claim claim = honest;
      if (!falsification.apply(claim, random)) continue;
      ++applied;
      CHECK_MESSAGE(claim.verdict() != "accepted", describe(claim.network));
    }
  }
  CHECK(applied >= 500);
}

/// Removes one label of an optimal assignment as costly, solves the rest, and claims that to be the optimum.
TEST_CASE("certificate: a removed label that is in fact better") {
  Random random(73);
  int better = 0;
  int accepted = 0;
  for (int i = 0; i < 300; ++i) {
    CostNetwork network = random_network(random, 6);
    auto [optimum, best] = enumerate_assignments(network);
    if (optimum >= kInfeasible || !unsupported_labels(network).empty()) continue;
    int variable = pick(random, 0, network.num_variables() - 1);
    if (network.num_labels(variable) == 1) continue;
    int label = best[static_cast<size_t>(variable)];
    KeptLabels kept;
    for (int v = 0; v < network.num_variables(); ++v) {
      std::vector<int>& labels = kept.emplace_back();
      for (int x = 0; x < network.num_labels(v); ++x) {
        if (v != variable || x != label) labels.push_back(x);
      }
    }
    Solution rest = solve(reduce_network(network, kept));
    if (rest.status != SolveStatus::kOptimal) continue;
    for (size_t v = 0; v < kept.size(); ++v) {
      rest.assignment[v] = kept[v][static_cast<size_t>(rest.assignment[v])];
    }
    rest.certificate.reductions.emplace_back();
    rest.certificate.reductions[0].messages = dual_bound(network, {}, 50).messages;
    rest.certificate.reductions[0].costly = {{variable, label}};
    bool is_accepted = !refute(rest.certificate, network, rest.assignment);
    accepted += is_accepted ? 1 : 0;
    if (rest.cost == optimum) continue;
    ++better;
    CHECK_FALSE(is_accepted);
  }
  CHECK(better >= 50);
  CHECK(accepted >= 5);
}

TEST_CASE("certificate: a removed label left out") {
  Random random(74);
  int applied = 0;
  for (const Claim& honest : honest_claims(random, 200)) {
    for (size_t r = 0; r < honest.certificate.reductions.size(); ++r) {
      Claim claim = honest;
      Reduction& reduction = claim.certificate.reductions[r];
      if (reduction.costly.empty()) continue;
      // The proof may hold with the label too, unless a message is about the variable: its table then does not fit.
      int variable = reduction.costly.back().variable;
      bool in_scope = std::any_of(claim.certificate.buckets.begin(), claim.certificate.buckets.end(),
                                  [&](const Certificate::Bucket& b) {
                                    return std::find(b.scope.begin(), b.scope.end(), variable) != b.scope.end();
                                  });
      if (!in_scope) continue;
      reduction.costly.pop_back();
      ++applied;
      CHECK(claim.verdict() != "accepted");
    }
  }
  CHECK(applied >= 8);
}

}  // namespace
}  // namespace tpc
