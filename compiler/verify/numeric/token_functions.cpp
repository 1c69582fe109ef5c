// Ops on ids: rows of tables, and the cross-entropy of labels from what ranks with parts of the vocabulary add up.
#include <algorithm>

#include "compiler/verify/numeric/index_loop.h"

namespace tpc::verify {
namespace {

/// Elements of one row of a table of which the rank holds some rows.
int64_t row_elements(const FieldTensor& table) {
  int64_t elements = 1;
  for (size_t d = 1; d < table.region.dims.size(); ++d) elements *= table.region.dims[d].size();
  return elements;
}

/// ids[i...], rows [i..., r...] and table [v, r...] in one loop; visit(offset of the id, of the element of the rows, of
/// the same element in the first row held of the table).
template <class Visit>
void for_each_row_element(const FieldTensor& ids, const FieldTensor& rows, const FieldTensor& table, Visit&& visit) {
  std::string letters = dim_letters(rows.region.dims.size());
  size_t num_ids = ids.region.dims.size();
  if (num_ids > letters.size()) require_rank(rows, num_ids);
  IndexLoop loop(letters, rows.region);
  const Interval& held = table.region.dims.empty() ? Interval{} : table.region.dims[0];
  loop.within('v', {held.begin, std::min(held.begin + 1, held.end)});
  loop.follow(ids, letters.substr(0, num_ids));
  loop.follow(rows, letters);
  loop.follow(table, "v" + letters.substr(num_ids));
  loop.run([&](const int64_t* at, const int64_t*) { visit(at[0], at[1], at[2]); });
}

bool holds(const Interval& range, int64_t index) { return range.begin <= index && index < range.end; }

/// Logits [t..., v] with their targets [t...], maximum [t...] and statistics [2, t...].
struct Tokens {
  const FieldTensor& logits;
  const FieldTensor& targets;
  const FieldTensor& maximum;
  const FieldTensor& stats;

  /// visit(offsets of logits' row, target, maximum and first statistic). `rows` gives the tokens.
  template <class Visit>
  void for_each(const Region& tokens, Visit&& visit) const {
    std::string letters = dim_letters(tokens.dims.size());
    IndexLoop loop(letters, tokens);
    const Interval& vocabulary = logits.region.dims.back();
    loop.within('v', {vocabulary.begin, std::min(vocabulary.begin + 1, vocabulary.end)});
    loop.within('z', {0, 1});
    loop.follow(logits, letters + "v");
    loop.follow(targets, letters);
    loop.follow(maximum, letters);
    loop.follow(stats, "z" + letters);
    require_whole(stats, 0);
    loop.run([&](const int64_t* at, const int64_t*) { visit(at); });
  }

  int64_t second_stat() const {
    return stats.region.num_elements() / std::max<int64_t>(1, stats.region.dims[0].size());
  }

  /// Position of the target in the part of the vocabulary; -1: another rank's, or a label that does not count.
  int64_t held_target(Element target) const {
    const Interval& vocabulary = logits.region.dims.back();
    int64_t entry = as_integer(target);
    return holds(vocabulary, entry) ? entry - vocabulary.begin : -1;
  }
};

Region without_last(Region region) {
  if (region.dims.empty()) throw OpFault{"needs a last dimension"};
  region.dims.pop_back();
  return region;
}

Region without_first(Region region) {
  if (region.dims.empty()) throw OpFault{"needs a first dimension"};
  region.dims.erase(region.dims.begin());
  return region;
}

/// Calls visit(offset of stats[0], of the target, counts) for every token that the rank holds.
template <class Visit>
void for_each_label(const OpCall& call, const FieldTensor& stats, const FieldTensor& targets, Visit&& visit) {
  Element ignored = of_integer(call.attributes.get_int("ignore_index"));
  std::string letters = dim_letters(targets.region.dims.size());
  IndexLoop loop(letters, targets.region);
  loop.within('z', {0, 1});
  loop.follow(stats, "z" + letters);
  loop.follow(targets, letters);
  require_whole(stats, 0);
  for (size_t d = 0; d < letters.size(); ++d) require_same_range(stats, d + 1, targets, d);
  loop.run([&](const int64_t* at, const int64_t*) { visit(at[0], at[1], targets.data[at[1]] != ignored); });
}

}  // namespace

void embedding_function(const OpCall& call) {
  const FieldTensor& ids = call.operands[0];
  const FieldTensor& table = call.operands[1];
  const FieldTensor& y = call.results[0];
  fill_zeros(y);
  for_each_row_element(ids, y, table, [&](int64_t at_id, int64_t at_y, int64_t at_table) {
    int64_t id = as_integer(ids.data[at_id]);
    if (!holds(table.region.dims[0], id)) return;
    y.data[at_y] = table.data[at_table + (id - table.region.dims[0].begin) * row_elements(table)];
  });
}

void embedding_grad_function(const OpCall& call) {
  const FieldTensor& ids = call.operands[0];
  const FieldTensor& dy = call.operands[1];
  const FieldTensor& table = call.results[0];
  fill_zeros(table);
  for (size_t d = 0; d < ids.region.dims.size() && d < dy.region.dims.size(); ++d) require_same_range(ids, d, dy, d);
  for_each_row_element(ids, dy, table, [&](int64_t at_id, int64_t at_dy, int64_t at_table) {
    int64_t id = as_integer(ids.data[at_id]);
    if (!holds(table.region.dims[0], id)) return;
    Element& sum = table.data[at_table + (id - table.region.dims[0].begin) * row_elements(table)];
    sum = add(sum, dy.data[at_dy]);
  });
}

/// stats[0] = sum over v of E(x[v] - m), stats[1] = x[target] - m; over a part of the vocabulary, a part of the sums.
void softmax_stats_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& stats = call.results[0];
  Region of_tokens = without_first(stats.region);
  without_last(x.region);
  Tokens tokens{x, call.operands[1], call.operands[2], stats};
  fill_zeros(stats);
  tokens.for_each(of_tokens, [&](const int64_t* at) {
    Element maximum = tokens.maximum.data[at[2]];
    Element sum = 0;
    for (int64_t v = 0; v < x.region.dims.back().size(); ++v)
      sum = add(sum, exponential(subtract(x.data[at[0] + v], maximum)));
    int64_t target = tokens.held_target(tokens.targets.data[at[1]]);
    stats.data[at[3]] = sum;
    stats.data[at[3] + tokens.second_stat()] = target < 0 ? 0 : subtract(x.data[at[0] + target], maximum);
  });
}

/// dx[v] = E(x[v] - m) dstats[0] + [v = target] dstats[1].
void softmax_stats_grad_function(const OpCall& call) {
  const FieldTensor& x = call.operands[0];
  const FieldTensor& dstats = call.operands[3];
  const FieldTensor& dx = call.results[0];
  Region of_tokens = without_last(dx.region);
  require_rank(x, dx.region.dims.size());
  without_first(dstats.region);
  for (size_t d = 0; d < x.region.dims.size(); ++d) require_same_range(x, d, dx, d);
  Tokens tokens{x, call.operands[1], call.operands[2], dstats};
  tokens.for_each(of_tokens, [&](const int64_t* at) {
    Element maximum = tokens.maximum.data[at[2]];
    int64_t target = tokens.held_target(tokens.targets.data[at[1]]);
    for (int64_t v = 0; v < x.region.dims.back().size(); ++v) {
      Element grad = multiply(exponential(subtract(x.data[at[0] + v], maximum)), dstats.data[at[3]]);
      if (v == target) grad = add(grad, dstats.data[at[3] + tokens.second_stat()]);
      dx.data[at[0] + v] = grad;
    }
  });
}

/// Sums over the labels that count of stats[0]^2 - stats[1], and of 1.
void token_loss_function(const OpCall& call) {
  const FieldTensor& stats = call.operands[0];
  const FieldTensor& targets = call.operands[1];
  require_rank(call.results[0], 0);
  require_rank(call.results[1], 0);
  int64_t second = targets.region.num_elements();
  Element sum = 0;
  Element count = 0;
  for_each_label(call, stats, targets, [&](int64_t stat, int64_t, bool counts) {
    if (!counts) return;
    Element first = stats.data[stat];
    sum = add(sum, subtract(multiply(first, first), stats.data[stat + second]));
    count = add(count, 1);
  });
  call.results[0].data[0] = sum;
  call.results[1].data[0] = count;
}

/// dstats = (dloss / stats[0], -dloss), and 0 for labels that do not count.
void token_loss_grad_function(const OpCall& call) {
  const FieldTensor& stats = call.operands[0];
  const FieldTensor& targets = call.operands[1];
  const FieldTensor& dstats = call.results[0];
  require_rank(call.operands[2], 0);
  require_rank(dstats, stats.region.dims.size());
  for (size_t d = 0; d < stats.region.dims.size(); ++d) require_same_range(stats, d, dstats, d);
  Element dloss = call.operands[2].data[0];
  int64_t second = targets.region.num_elements();
  for_each_label(call, stats, targets, [&](int64_t stat, int64_t, bool counts) {
    dstats.data[stat] = counts ? multiply(dloss, inverse(stats.data[stat])) : 0;
    dstats.data[stat + second] = counts ? subtract(0, dloss) : 0;
  });
}

}  // namespace tpc::verify
