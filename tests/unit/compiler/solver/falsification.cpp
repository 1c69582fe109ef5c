#include "tests/unit/compiler/solver/falsification.h"

#include <utility>

namespace tpc {
namespace {

using Random = std::mt19937_64;

size_t pick_index(Random& random, size_t size) { return random() % size; }

/// A bucket for which `fits` holds; nullptr if there is none.
template <typename Predicate>
Certificate::Bucket* pick_bucket(Claim& claim, Random& random, Predicate fits) {
  std::vector<Certificate::Bucket*> candidates;
  for (Certificate::Bucket& bucket : claim.certificate.buckets) {
    if (fits(bucket)) candidates.push_back(&bucket);
  }
  return candidates.empty() ? nullptr : candidates[pick_index(random, candidates.size())];
}

bool any(const Certificate::Bucket&) { return true; }
bool has_factor(const Certificate::Bucket& bucket) { return !bucket.factors.empty(); }
bool has_message(const Certificate::Bucket& bucket) { return !bucket.messages.empty(); }
bool has_scope(const Certificate::Bucket& bucket) { return !bucket.scope.empty(); }

/// Gives the bucket a table of its own; nullptr when an earlier falsification has left it without.
CostTable* own_table(Claim& claim, Certificate::Bucket& bucket) {
  std::vector<CostTable>& tables = claim.certificate.tables;
  if (bucket.table < 0 || static_cast<size_t>(bucket.table) >= tables.size()) return nullptr;
  CostTable copy = tables[static_cast<size_t>(bucket.table)];
  bucket.table = static_cast<int>(tables.size());
  tables.push_back(std::move(copy));
  return &tables.back();
}

/// A feasible entry of the message of some bucket, whose table is made its own.
Cost* pick_entry(Claim& claim, Random& random) {
  Certificate::Bucket* bucket = pick_bucket(claim, random, any);
  if (bucket == nullptr || own_table(claim, *bucket) == nullptr) return nullptr;
  std::vector<Cost*> feasible;
  for (Cost& entry : claim.certificate.tables.back().entries) {
    if (entry < kInfeasible) feasible.push_back(&entry);
  }
  return feasible.empty() ? nullptr : feasible[pick_index(random, feasible.size())];
}

template <typename Change>
bool change_bucket(Claim& claim, Random& random, bool (*fits)(const Certificate::Bucket&), Change change) {
  Certificate::Bucket* bucket = pick_bucket(claim, random, fits);
  if (bucket != nullptr) change(*bucket);
  return bucket != nullptr;
}

constexpr int kManyLabels = 5;  ///< more than any variable here has

const std::vector<Falsification> kFalsifications{
    {"raised constant",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [&](Certificate::Bucket& b) {
         b.constant += 1;
         claim.certificate.bound += 1;
       });
     }},
    {"raised constant and lowered constant",
     [](Claim& claim, Random& random) {
       if (claim.certificate.buckets.size() < 2) return false;
       size_t raised = pick_index(random, claim.certificate.buckets.size() - 1);
       claim.certificate.buckets[raised].constant += 1;
       claim.certificate.buckets[raised + 1].constant -= 1;
       return true;
     }},
    {"lowered constant",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [](Certificate::Bucket& b) { b.constant -= 1; });
     }},
    {"constant out of range",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [](Certificate::Bucket& b) { b.constant = -kInfeasible; });
     }},
    {"raised bound", [](Claim& claim, Random&) { return ++claim.certificate.bound, true; }},
    {"lowered bound", [](Claim& claim, Random&) { return --claim.certificate.bound, true; }},
    {"raised entry",
     [](Claim& claim, Random& random) {
       Cost* entry = pick_entry(claim, random);
       return entry != nullptr && (*entry += 1, true);
     }},
    {"entry made infeasible",
     [](Claim& claim, Random& random) {
       Cost* entry = pick_entry(claim, random);
       return entry != nullptr && (*entry = kInfeasible, true);
     }},
    {"entry out of range",
     [](Claim& claim, Random& random) {
       Cost* entry = pick_entry(claim, random);
       return entry != nullptr && (*entry = random() % 2 == 0 ? -kInfeasible : kInfeasible + 1, true);
     }},
    {"missing entry",
     [](Claim& claim, Random& random) {
       return pick_entry(claim, random) != nullptr && (claim.certificate.tables.back().entries.pop_back(), true);
     }},
    {"factor dropped",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_factor, [](Certificate::Bucket& b) { b.factors.pop_back(); });
     }},
    {"factor used twice in a bucket",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_factor,
                            [](Certificate::Bucket& b) { b.factors.push_back(b.factors.front()); });
     }},
    {"factor used in two buckets",
     [](Claim& claim, Random& random) {
       Certificate::Bucket* from = pick_bucket(claim, random, has_factor);
       return from != nullptr && change_bucket(claim, random, any, [&](Certificate::Bucket& b) {
                int factor = from->factors.front();
                b.factors.push_back(factor);
              });
     }},
    {"no such factor",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [&](Certificate::Bucket& b) {
         b.factors.push_back(random() % 2 == 0 ? -1 : static_cast<int>(claim.network.factors().size()));
       });
     }},
    {"message dropped",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_message, [](Certificate::Bucket& b) { b.messages.pop_back(); });
     }},
    {"message taken twice",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_message,
                            [](Certificate::Bucket& b) { b.messages.push_back(b.messages.front()); });
     }},
    {"message of its own or of a later bucket",
     [](Claim& claim, Random& random) {
       size_t count = claim.certificate.buckets.size();
       if (count == 0) return false;
       size_t taker = pick_index(random, count);
       size_t sender = taker + pick_index(random, count - taker);
       claim.certificate.buckets[taker].messages.push_back(static_cast<int>(sender));
       return true;
     }},
    {"no such message",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [](Certificate::Bucket& b) { b.messages.push_back(-1); });
     }},
    {"no such table",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [&](Certificate::Bucket& b) {
         b.table = random() % 2 == 0 ? -1 : static_cast<int>(claim.certificate.tables.size());
       });
     }},
    {"table of other sizes",
     [](Claim& claim, Random& random) {
       Certificate::Bucket* bucket = pick_bucket(claim, random, has_scope);
       CostTable* table = bucket == nullptr ? nullptr : own_table(claim, *bucket);
       if (table == nullptr || table->sizes.empty()) return false;
       auto old_size = static_cast<size_t>(table->sizes[0]++);
       table->entries.assign(table->entries.size() / old_size * (old_size + 1), -1000);
       return true;
     }},
    {"scope without one of its variables",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_scope, [](Certificate::Bucket& b) { b.scope.pop_back(); });
     }},
    {"message that ignores a variable",
     [](Claim& claim, Random& random) {
       Certificate::Bucket* bucket = pick_bucket(claim, random, has_scope);
       CostTable* table = bucket == nullptr ? nullptr : own_table(claim, *bucket);
       if (table == nullptr || table->sizes.empty()) return false;
       bucket->scope.pop_back();
       table->entries.assign(table->entries.size() / static_cast<size_t>(table->sizes.back()), 0);
       table->sizes.pop_back();
       return true;
     }},
    {"a variable twice in a scope",
     [](Claim& claim, Random& random) {
       return change_bucket(
           claim, random, [](const Certificate::Bucket& b) { return b.scope.size() >= 2; },
           [](Certificate::Bucket& b) { b.scope[0] = b.scope[1]; });
     }},
    {"the eliminated variable in the scope",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_scope, [](Certificate::Bucket& b) { b.scope[0] = b.variable; });
     }},
    {"no such variable in the scope",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, has_scope, [&](Certificate::Bucket& b) {
         b.scope[0] = random() % 2 == 0 ? -1 : claim.network.num_variables();
       });
     }},
    {"no such variable to eliminate",
     [](Claim& claim, Random& random) {
       return change_bucket(claim, random, any, [&](Certificate::Bucket& b) {
         b.variable = random() % 2 == 0 ? -2 : claim.network.num_variables();
       });
     }},
    {"eliminates none",
     [](Claim& claim, Random& random) {
       return change_bucket(
           claim, random, [](const Certificate::Bucket& b) { return b.variable != -1; },
           [](Certificate::Bucket& b) { b.variable = -1; });
     }},
    {"last bucket dropped",
     [](Claim& claim, Random&) {
       if (claim.certificate.buckets.empty()) return false;
       claim.certificate.bound -= claim.certificate.buckets.back().constant;
       claim.certificate.buckets.pop_back();
       return true;
     }},
    {"label out of range",
     [](Claim& claim, Random& random) {
       if (claim.assignment.empty()) return false;
       size_t v = pick_index(random, claim.assignment.size());
       claim.assignment[v] = random() % 2 == 0 ? -1 : kManyLabels;
       return true;
     }},
    {"a label too few",
     [](Claim& claim, Random&) {
       if (claim.assignment.empty()) return false;
       claim.assignment.pop_back();
       return true;
     }},
    {"a label too many", [](Claim& claim, Random&) { return claim.assignment.push_back(0), true; }},
};

}  // namespace

const std::vector<Falsification>& falsifications() { return kFalsifications; }

void raise_constant(Claim& claim, Random& random, Cost amount) {
  change_bucket(claim, random, any, [&](Certificate::Bucket& b) { b.constant += amount; });
}

bool raise_entry(Claim& claim, Random& random, Cost amount) {
  Cost* entry = pick_entry(claim, random);
  if (entry != nullptr) *entry += amount;
  return entry != nullptr;
}

}  // namespace tpc
