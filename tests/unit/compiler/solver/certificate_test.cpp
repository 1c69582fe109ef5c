#include "passes/solver/certificate.h"

#include <doctest/doctest.h>

#include <utility>

#include "passes/solver/elimination.h"
#include "tests/unit/compiler/solver/falsification.h"
#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

using Random = std::mt19937_64;

size_t pick_index(Random& random, size_t size) { return random() % size; }

Claim honest_claim(CostNetwork network) {
  Solution solution = solve(network);
  if (solution.status != SolveStatus::kOptimal) return {};
  return {std::move(network), solution.certificate, solution.assignment};
}

std::vector<Claim> honest_claims(Random& random, int count, int max_variables) {
  std::vector<Claim> claims;
  while (static_cast<int>(claims.size()) < count) {
    Claim claim = honest_claim(random_network(random, max_variables));
    if (!claim.assignment.empty()) claims.push_back(std::move(claim));
  }
  return claims;
}

TEST_CASE("certificate: every falsification is refuted") {
  Random random(11);
  std::vector<Claim> claims = honest_claims(random, 100, 8);
  for (int i = 0; i < 10; ++i) {
    Claim claim = honest_claim(random_layers(random, 6, 2));
    if (!claim.assignment.empty()) claims.push_back(std::move(claim));
  }
  for (const Falsification& falsification : falsifications()) {
    CAPTURE(falsification.name);
    int applied = 0;
    for (const Claim& honest : claims) {
      Claim claim = honest;
      if (!falsification.apply(claim, random)) continue;
      ++applied;
      CHECK_MESSAGE(claim.verdict() != "accepted", describe(claim.network));
    }
    CHECK(applied >= 20);
  }
}

TEST_CASE("certificate: no assignment of another cost, no network of another optimum") {
  Random random(12);
  int costlier = 0;
  int other_networks = 0;
  for (const Claim& honest : honest_claims(random, 100, 6)) {
    Claim claim = honest;
    for (size_t v = 0; v < claim.assignment.size(); ++v) {
      for (int label = 0; label < claim.network.num_labels(static_cast<int>(v)); ++label) {
        claim.assignment[v] = label;
        bool optimal = claim.network.cost(claim.assignment) == claim.certificate.bound;
        CHECK((claim.verdict() == "accepted") == optimal);
        if (!optimal) ++costlier;
      }
      claim.assignment[v] = honest.assignment[v];
    }
    for (size_t f = 0; f < honest.network.factors().size(); ++f) {
      claim.network = edited(honest.network, [&](size_t factor, CostTable& table) {
        Cost& entry = table.entries[pick_index(random, table.entries.size())];
        if (factor == f) entry = entry == 0 ? Cost{1} : Cost{0};
        return true;
      });
      Cost optimum = enumerate_assignments(claim.network).first;
      if (optimum == claim.network.cost(claim.assignment) && optimum == honest.certificate.bound) continue;
      ++other_networks;
      CHECK(claim.verdict() != "accepted");
    }
  }
  CHECK(costlier >= 100);
  CHECK(other_networks >= 50);
}

/// The strongest forger: wants a costlier assignment accepted, raises the bound to its cost, moves the difference into
/// some bucket, and falsifies up to three things more.
TEST_CASE("certificate: no forgery makes a costlier assignment optimal") {
  Random random(13);
  int forged = 0;
  for (const Claim& honest : honest_claims(random, 200, 6)) {
    for (int attempt = 0; attempt < 40; ++attempt) {
      Claim claim = honest;
      for (size_t v = 0; v < claim.assignment.size(); ++v) {
        claim.assignment[v] = pick(random, 0, claim.network.num_labels(static_cast<int>(v)) - 1);
      }
      Cost cost = claim.network.cost(claim.assignment);
      if (cost >= kInfeasible || cost == honest.certificate.bound) continue;
      ++forged;
      Cost missing = cost - claim.certificate.bound;
      claim.certificate.bound = cost;
      raise_constant(claim, random, missing);
      for (int i = pick(random, 0, 3); i > 0; --i) {
        falsifications()[pick_index(random, falsifications().size())].apply(claim, random);
        if (random() % 2 == 0) raise_entry(claim, random, -missing);
      }
      CHECK(claim.verdict() != "accepted");
    }
  }
  CHECK(forged >= 1000);
}

/// Two variables a, b of two labels; bucket 0 eliminates a, bucket 1 b.
Claim two_variables(std::vector<Cost> cost_of_both, std::vector<Cost> cost_of_b) {
  Claim claim;
  int a = claim.network.add_variable(2);
  int b = claim.network.add_variable(2);
  claim.network.add_factor({a, b}, claim.network.add_table({2, 2}, std::move(cost_of_both)));
  claim.network.add_factor({b}, claim.network.add_table({2}, std::move(cost_of_b)));
  claim.certificate.buckets = {{a, {0}, {}, {b}, 0, 0}, {b, {1}, {0}, {}, 1, 0}};
  claim.certificate.tables = {{{2}, {0, 0}}, {{}, {0}}};
  claim.assignment = {0, 0};
  return claim;
}

TEST_CASE("certificate: messages and constants of any sign prove what they prove") {
  Claim claim = two_variables({3, 9, 4, 8}, {10, 7});
  claim.certificate.bound = 13;
  claim.certificate.buckets[0].constant = 20;
  claim.certificate.tables[0].entries = {-17, -12};
  claim.certificate.buckets[1].constant = -10;
  claim.certificate.tables[1].entries = {3};
  CHECK(claim.verdict() == "accepted");
  ++claim.certificate.tables[0].entries[0];
  CHECK(claim.verdict() == "bucket 0: the message promises too much");
  --claim.certificate.tables[0].entries[0];
  claim.certificate.buckets[1].messages.clear();
  CHECK(claim.verdict() == "message 0 is taken 0 times");
}

TEST_CASE("certificate: a sum is infeasible by its size only where nothing is negative") {
  // With b = 0 the sum of bucket 1 passes kInfeasible by what its message promises too much and bucket 0 takes back.
  Claim claim = two_variables({0, 0, 0, 0}, {kInfeasible - 3, kInfeasible - 1});
  claim.assignment = {0, 1};
  claim.certificate.buckets[0].constant = -5;
  claim.certificate.tables[0].entries = {5, 5};
  claim.certificate.buckets[1].constant = kInfeasible - 1;
  claim.certificate.tables[1].entries = {5};
  claim.certificate.bound = kInfeasible - 1;
  CHECK(claim.verdict() == "bucket 1: the message promises too much");
}

TEST_CASE("certificate: an infeasible assignment is not optimal") {
  Claim claim = two_variables({0, 0, 0, 0}, {kInfeasible, kInfeasible});
  claim.certificate.buckets[1].constant = kInfeasible - 1;
  claim.certificate.tables[1].entries = {1};
  claim.certificate.bound = kInfeasible;
  CHECK(claim.verdict() == "the assignment is infeasible");
}

TEST_CASE("certificate: sums of many huge entries do not wrap around") {
  // From the 129th message on, the last bucket's sum would be large and positive modulo 2^128.
  Claim claim = two_variables({0, 0, 0, 0}, {0, 1});
  claim.assignment = {0, 1};
  claim.certificate.tables.push_back({{2}, {-kInfeasible + 1, -kInfeasible + 1}});
  Certificate::Bucket last = claim.certificate.buckets.back();
  last.constant = 1;
  claim.certificate.buckets.pop_back();
  for (int m = 1; m <= 130; ++m) {
    claim.certificate.buckets.push_back({-1, {}, {}, {1}, 2, 0});
    last.messages.push_back(m);
  }
  claim.certificate.buckets.push_back(last);
  claim.certificate.bound = 1;
  CHECK(claim.verdict() == "bucket 131: the message promises too much");

  // Constants whose sum is 2^128.
  claim = two_variables({0, 0, 0, 0}, {0, 0});
  claim.certificate.tables.push_back({{}, {-kInfeasible + 1}});
  for (int i = 0; i < 256; ++i) claim.certificate.buckets.push_back({-1, {}, {}, {}, 2, kInfeasible - 1});
  CHECK(claim.verdict() == "accepted");
  for (int i = 0; i < 256; ++i) {
    Certificate::Bucket taker{-1, {}, {i + 2}, {}, 2, 0};
    claim.certificate.buckets.push_back(taker);
  }
  CHECK(claim.verdict() == "the bound is out of range");
}

TEST_CASE("certificate: buckets of the same tables in another arrangement are not the same") {
  // The least cost per label of the second variable is {5, 0}, of the first {0, 5}.
  Claim claim;
  for (int v = 0; v < 4; ++v) claim.network.add_variable(2);
  int table = claim.network.add_table({2, 2}, {5, 0, 5, 5});
  claim.network.add_factor({0, 1}, table);
  claim.network.add_factor({2, 3}, table);
  claim.certificate.tables = {{{2}, {5, 0}}, {{}, {0}}};
  claim.certificate.buckets = {
      {0, {0}, {}, {1}, 0, 0}, {3, {1}, {}, {2}, 0, 0}, {1, {}, {0}, {}, 1, 0}, {2, {}, {1}, {}, 1, 0}};
  claim.assignment = {0, 1, 0, 1};
  CHECK(claim.verdict() == "bucket 1: the message promises too much");
}

TEST_CASE("certificate: what a message may not look like") {
  const Claim honest = two_variables({0, 0, 0, 0}, {0, 0});
  CHECK(honest.verdict() == "accepted");
  Claim claim = honest;
  claim.certificate.tables[0] = {{2, 2}, {0, 0, 0, 0}};
  CHECK(claim.verdict() == "bucket 0: the table does not fit the scope");
  claim.certificate.buckets[0].scope = {1, 1};
  CHECK(claim.verdict() == "bucket 0: a variable twice");
  claim.certificate.buckets[0].scope = {1, 0};
  CHECK(claim.verdict() == "bucket 0: a variable twice");
  claim = honest;
  claim.certificate.tables[0] = {{1}, {0}};
  CHECK(claim.verdict() == "bucket 0: the table does not fit the scope");
  claim.certificate.tables[0] = {{3}, {0, 0, 0}};
  CHECK(claim.verdict() == "bucket 0: the table does not fit the scope");
  claim.certificate.tables[0] = {{3}, {0, 0}};
  CHECK(claim.verdict() == "table 0 has odd entries");
  claim.certificate.tables[0] = {std::vector<int>(200, 65535), {0, 0}};
  CHECK(claim.verdict() == "table 0 has impossible sizes");
}

}  // namespace
}  // namespace tpc
