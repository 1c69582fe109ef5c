#include "passes/solver/dual_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "compiler/core/check.h"

namespace tpc {
namespace {

template <typename Number>
constexpr Number kForbidden{};
template <>
constexpr double kForbidden<double> = std::numeric_limits<double>::infinity();
/// With room for the messages of kMaxScope variables on either side.
template <>
constexpr Cost kForbidden<Cost> = Cost{1} << 126;

/// The network's tables in another type of numbers.
template <typename Number>
std::vector<std::vector<Number>> convert_tables(const CostNetwork& network) {
  std::vector<std::vector<Number>> tables;
  tables.reserve(network.tables().size());
  for (const CostTable& table : network.tables()) {
    std::vector<Number>& entries = tables.emplace_back();
    entries.reserve(table.entries.size());
    for (Cost entry : table.entries) {
      entries.push_back(entry < kInfeasible ? static_cast<Number>(entry) : kForbidden<Number>);
    }
  }
  return tables;
}

/// The messages of a factor to one of its variables start here; the offset after the last is their number.
std::vector<size_t> message_offsets(const CostTable& table) {
  std::vector<size_t> offsets{0};
  for (int size : table.sizes) offsets.push_back(offsets.back() + static_cast<size_t>(size));
  return offsets;
}

/// Four at a time, since a minimum of doubles in one chain waits for each comparison.
template <typename Number>
Number least_difference(const Number* entries, const Number* messages, size_t count) {
  Number least[4] = {kForbidden<Number>, kForbidden<Number>, kForbidden<Number>, kForbidden<Number>};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) {
      Number difference = entries[i + lane] - messages[i + lane];
      least[lane] = difference < least[lane] ? difference : least[lane];
    }
  }
  for (; i < count; ++i) least[0] = std::min(least[0], entries[i] - messages[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

template <typename Number>
void lower_to_differences(Number* least, const Number* entries, const Number* messages, Number base, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Number difference = entries[i] - (messages[i] + base);
    least[i] = difference < least[i] ? difference : least[i];
  }
}

/// For each label of the variable at `position`: the least of entry - sum(messages) over the entries with it.
template <typename Number>
void find_least(const std::vector<Number>& entries, std::span<const size_t> offsets, const Number* messages,
                size_t position, std::vector<Number>& least) {
  size_t last = offsets.size() - 2;
  auto size_of = [&](size_t d) { return offsets[d + 1] - offsets[d]; };
  least.assign(size_of(position), kForbidden<Number>);
  size_t row_size = size_of(last);
  size_t labels[CostNetwork::kMaxScope] = {};
  for (size_t row = 0; row < entries.size(); row += row_size) {
    Number base = 0;
    for (size_t d = 0; d < last; ++d) base += messages[offsets[d] + labels[d]];
    if (position == last) {
      lower_to_differences(least.data(), &entries[row], messages + offsets[last], base, row_size);
    } else {
      Number& least_of_label = least[labels[position]];
      least_of_label =
          std::min(least_of_label, least_difference(&entries[row], messages + offsets[last], row_size) - base);
    }
    for (size_t d = last; d-- > 0;) {
      if (++labels[d] < size_of(d)) break;
      labels[d] = 0;
    }
  }
}

/// The ascent: per variable the sum of the messages to its labels is kept up to date.
class Ascent {
 public:
  Ascent(const CostNetwork& network, const FactorMessages& start)
      : network_(network), tables_(convert_tables<double>(network)) {
    sums_.resize(static_cast<size_t>(network.num_variables()));
    for (size_t v = 0; v < sums_.size(); ++v) sums_[v].assign(static_cast<size_t>(num_labels(v)), 0);
    for (size_t f = 0; f < network.factors().size(); ++f)
      add_factor(network.factors()[f], start.empty() ? nullptr : &start[f]);
    order_.resize(factors_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return first_variable(a) < first_variable(b); });
  }

  FactorMessages run(int sweeps) {
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (size_t f : order_) update(factors_[f]);
      // Back and forth, so that what the ends know reaches the other one in one sweep.
      std::reverse(order_.begin(), order_.end());
      for (Factor& factor : factors_) std::reverse(factor.turns.begin(), factor.turns.end());
    }
    FactorMessages messages;
    for (const Factor& factor : factors_) {
      std::vector<Cost>& rounded = messages.emplace_back();
      for (double message : factor.messages) {
        constexpr double kLimit = 0x1p120;
        rounded.push_back(static_cast<Cost>(std::clamp(message, -kLimit, kLimit)));
      }
    }
    return messages;
  }

 private:
  struct Factor {
    const std::vector<int>* scope;
    const std::vector<double>* entries;
    std::vector<size_t> offsets;
    std::vector<double> messages;
    std::vector<size_t> turns;  // positions in the order in which their variables are served
  };

  int num_labels(size_t v) const { return network_.num_labels(static_cast<int>(v)); }
  int first_variable(size_t f) const {
    const Factor& factor = factors_[f];
    return factor.turns.empty() ? 0 : (*factor.scope)[factor.turns.front()];
  }
  std::vector<double>& sums_at(const Factor& factor, size_t position) {
    return sums_[static_cast<size_t>((*factor.scope)[position])];
  }

  void add_factor(const CostNetwork::Factor& source, const std::vector<Cost>* start) {
    auto table = static_cast<size_t>(source.table);
    Factor factor{&source.scope, &tables_[table], message_offsets(network_.tables()[table]), {}, {}};
    factor.messages.assign(factor.offsets.back(), 0);
    if (start != nullptr) {
      for (size_t i = 0; i < start->size(); ++i) factor.messages[i] = static_cast<double>((*start)[i]);
    }
    for (size_t i = 0; i < source.scope.size(); ++i) {
      std::vector<double>& sums = sums_at(factor, i);
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += factor.messages[factor.offsets[i] + x];
    }
    factor.turns.resize(source.scope.size());
    std::iota(factor.turns.begin(), factor.turns.end(), size_t{0});
    std::sort(factor.turns.begin(), factor.turns.end(),
              [&](size_t a, size_t b) { return source.scope[a] < source.scope[b]; });
    factors_.push_back(std::move(factor));
  }

  void update(Factor& factor) {
    size_t count = factor.turns.size();
    for (size_t i = 0; i < count; ++i) {
      std::vector<double>& sums = sums_at(factor, i);
      for (size_t x = 0; x < sums.size(); ++x) factor.messages[factor.offsets[i] + x] -= sums[x];
      sums.assign(sums.size(), 0);
    }
    for (size_t i = 0; i < count; ++i) hand_out(factor, factor.turns[i], 1.0 / static_cast<double>(count - i));
    // What the shares of the later ones left over.
    for (size_t i = count; i-- > 1;) hand_out(factor, factor.turns[i - 1], 1.0);
  }

  void hand_out(Factor& factor, size_t position, double share) {
    find_least(*factor.entries, factor.offsets, factor.messages.data(), position, least_);
    std::vector<double>& sums = sums_at(factor, position);
    for (size_t x = 0; x < sums.size(); ++x) {
      double amount = least_[x] * share;
      factor.messages[factor.offsets[position] + x] += amount;
      sums[x] += amount;
    }
  }

  const CostNetwork& network_;
  std::vector<std::vector<double>> tables_;
  std::vector<std::vector<double>> sums_;
  std::vector<Factor> factors_;
  std::vector<size_t> order_;  // of the factors in the next sweep
  std::vector<double> least_;
};

/// Makes each factor's messages valid and as large as its entries allow.
class Tightening {
 public:
  explicit Tightening(const CostNetwork& network) : network_(network), tables_(convert_tables<Cost>(network)) {
    Cost messages = 1;
    for (const CostNetwork::Factor& factor : network.factors()) messages += static_cast<Cost>(factor.scope.size());
    largest_ = kInfeasible / messages;  // the bound adds up one message per factor and variable
  }

  void run(size_t factor, std::vector<Cost>& messages) {
    const CostNetwork::Factor& source = network_.factors()[factor];
    if (source.scope.empty()) return;
    auto table = static_cast<size_t>(source.table);
    std::vector<size_t> offsets = message_offsets(network_.tables()[table]);
    for (Cost& message : messages) message = std::clamp(message, -largest_, largest_);
    if (tighten(tables_[table], offsets, messages)) return;
    // No entry is negative: from zero on, messages only grow.
    std::fill(messages.begin(), messages.end(), 0);
    TPC_CHECK(tighten(tables_[table], offsets, messages), "factor {} has no valid messages", factor);
  }

 private:
  bool tighten(const std::vector<Cost>& entries, std::span<const size_t> offsets, std::vector<Cost>& messages) {
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      find_least(entries, offsets, messages.data(), i, least_);
      for (size_t x = 0; x < least_.size(); ++x) {
        TPC_CHECK(least_[x] < kForbidden<Cost> / 2, "a label without feasible entries");
        Cost& message = messages[offsets[i] + x];
        message = std::min(message + least_[x], largest_);
        if (message < -largest_) return false;
      }
    }
    return true;
  }

  const CostNetwork& network_;
  std::vector<std::vector<Cost>> tables_;
  Cost largest_ = 0;
  std::vector<Cost> least_;
};

void add_up(const CostNetwork& network, DualBound& result) {
  auto count = static_cast<size_t>(network.num_variables());
  std::vector<std::vector<Cost>>& sums = result.label_bounds;
  sums.resize(count);
  for (size_t v = 0; v < count; ++v) sums[v].assign(static_cast<size_t>(network.num_labels(static_cast<int>(v))), 0);
  result.bound = 0;
  for (size_t f = 0; f < network.factors().size(); ++f) {
    const CostNetwork::Factor& factor = network.factors()[f];
    const Cost* message = result.messages[f].data();
    for (int variable : factor.scope) {
      for (Cost& sum : sums[static_cast<size_t>(variable)]) sum += *message++;
    }
    if (!factor.scope.empty()) continue;
    result.bound = add_costs(result.bound, network.tables()[static_cast<size_t>(factor.table)].entries[0]);
  }
  for (const std::vector<Cost>& labels : sums) {
    result.bound = std::min(result.bound + *std::min_element(labels.begin(), labels.end()), kInfeasible);
  }
  for (std::vector<Cost>& labels : sums) {
    Cost others = result.bound - *std::min_element(labels.begin(), labels.end());
    for (Cost& label : labels) label = std::min(label + others, kInfeasible);
  }
}

}  // namespace

DualBound dual_bound(const CostNetwork& network, const FactorMessages& start, int sweeps) {
  DualBound result;
  result.messages = Ascent(network, start).run(sweeps);
  Tightening tightening(network);
  for (size_t f = 0; f < result.messages.size(); ++f) tightening.run(f, result.messages[f]);
  add_up(network, result);
  return result;
}

}  // namespace tpc
