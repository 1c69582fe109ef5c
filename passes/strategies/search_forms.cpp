// Which forms of a value its uses may be served from, together: the sets that are labels of a variable.
#include <algorithm>

#include "passes/strategies/search_network.h"

namespace tpc {
namespace {

/// More concurrent forms than this are covered by one that gives them: labels would be too many.
size_t max_forms(size_t num_axes, size_t wanted) {
  if (num_axes == 1) return wanted;
  return num_axes == 2 ? 2 : 1;
}

/// Sets of one value; beyond, their costs alone take too long.
constexpr size_t kMostSets = 2000;

}  // namespace

/// Drops sets that another one betters: it serves all that they serve, and costs no more from any form made, whatever
/// is made along with it.
void SearchNetwork::drop_dominated(int of_tensor, const std::vector<State>& wanted,
                                   const std::vector<std::vector<State>>& from,
                                   const std::vector<std::vector<State>>& along,
                                   std::vector<std::vector<State>>& sets) {
  struct Row {
    std::vector<bool> serves;
    std::vector<Charge> costs;
  };
  std::vector<Row> rows;
  for (const std::vector<State>& set : sets) {
    Row row;
    for (State form : wanted) {
      row.serves.push_back(
          std::any_of(set.begin(), set.end(), [&](State has) { return gives_free(of_tensor, has, form); }));
    }
    for (const std::vector<State>& sources : from) {
      row.costs.push_back(provide_charge(of_tensor, sources, set));
      for (const std::vector<State>& others : along) {
        std::vector<State> targets = set;
        targets.insert(targets.end(), others.begin(), others.end());
        row.costs.push_back(provide_charge(of_tensor, sources, targets));
      }
    }
    rows.push_back(std::move(row));
  }
  auto betters = [&](size_t a, size_t b) {
    for (size_t w = 0; w < wanted.size(); ++w) {
      if (rows[b].serves[w] && !rows[a].serves[w]) return false;
    }
    bool is_cheaper = false;
    for (size_t c = 0; c < rows[a].costs.size(); ++c) {
      const Charge& of_a = rows[a].costs[c];
      const Charge& of_b = rows[b].costs[c];
      if (of_a > of_b) return false;
      is_cheaper = is_cheaper || of_a < of_b;
    }
    return is_cheaper || rows[a].serves != rows[b].serves || a < b;
  };
  std::vector<std::vector<State>> kept;
  for (size_t b = 0; b < sets.size(); ++b) {
    bool is_dominated = false;
    for (size_t a = 0; a < sets.size() && !is_dominated; ++a) is_dominated = a != b && betters(a, b);
    if (!is_dominated) kept.push_back(std::move(sets[b]));
  }
  sets = std::move(kept);
}

/// The form sets that serve these uses, as labels of a variable of their own; they are made of one of the sets `from`,
/// and along with one of `along`.
std::vector<SearchNetwork::Side> SearchNetwork::gathered(int of_tensor, const std::vector<Side>& uses,
                                                         const std::vector<std::vector<State>>& from,
                                                         const std::vector<std::vector<State>>& along) {
  if (uses.size() <= 1) return uses;
  std::vector<int> key{of_tensor};
  for (const Side& side : uses) key.push_back(side.meaning);
  std::sort(key.begin() + 1, key.end());
  key.erase(std::unique(key.begin() + 1, key.end()), key.end());
  for (const std::vector<std::vector<State>>* others : {&from, &along}) {
    for (const std::vector<State>& set : *others) {
      key.push_back(-1);
      key.insert(key.end(), set.begin(), set.end());
    }
    key.push_back(-2);
  }
  auto [entry, is_new] = shared_meanings_.try_emplace(std::move(key), -1);
  if (is_new) {
    std::vector<State> wanted;
    for (const Side& side : uses) {
      for (State form : all_forms(side)) wanted.push_back(form);
    }
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    // Antichains, grown form by form.
    size_t most = max_forms(graph_.mesh.num_axes(), wanted.size());
    LabelMeaning sets;
    auto grow = [&](auto&& self, size_t next, std::vector<State>& chosen) -> void {
      if (!chosen.empty()) sets.forms.push_back(chosen);
      if (sets.forms.size() > kMostSets) refuse_too_many_choices();
      if (chosen.size() == most) return;
      for (size_t i = next; i < wanted.size(); ++i) {
        bool is_free = std::any_of(chosen.begin(), chosen.end(), [&](State form) {
          return gives_free(of_tensor, form, wanted[i]) || gives_free(of_tensor, wanted[i], form);
        });
        if (is_free) continue;
        chosen.push_back(wanted[i]);
        self(self, i + 1, chosen);
        chosen.pop_back();
      }
    };
    std::vector<State> chosen;
    grow(grow, 0, chosen);
    // What is whole everywhere serves all uses, whatever they want.
    if (most < wanted.size()) {
      State whole = tensor(of_tensor).conversions.add(TensorSharding::replicated(graph_.mesh));
      if (std::find(wanted.begin(), wanted.end(), whole) == wanted.end()) sets.forms.push_back({whole});
    }
    drop_dominated(of_tensor, wanted, from, along, sets.forms);
    entry->second = intern(std::move(sets));
  }
  Side set{add_variable(meanings_[static_cast<size_t>(entry->second)].forms.size()), entry->second};
  for (const Side& use : uses) {
    add_factor(TableKind::kServe, of_tensor, {set, use}, [&](const std::vector<size_t>& labels) {
      const std::vector<State>& made = meaning(set).forms[labels[0]];
      State form = meaning(use).forms[labels[1]][0];
      bool served = std::any_of(made.begin(), made.end(), [&](State has) { return gives_free(of_tensor, has, form); });
      return served ? std::optional(Charge{}) : std::nullopt;
    });
  }
  return {set};
}

/// Sets of forms in which a value may wait for backward: one, or two where forward makes both for less than backward
/// makes one of the other.
SearchNetwork::Side SearchNetwork::kept_side(int of_tensor, const Side& made, const UseSides& uses, bool is_leaf) {
  std::vector<State> forms;
  auto offer = [&](const Side& side, std::vector<State>& list) {
    for (State form : all_forms(side)) {
      bool is_partial = tensor(of_tensor).conversions.sharding(form).has_partial();
      if (!is_partial && std::find(list.begin(), list.end(), form) == list.end()) list.push_back(form);
    }
  };
  if (!is_leaf) offer(made, forms);
  std::vector<State> early;
  for (const Side& side : uses.early) {
    offer(side, early);
    offer(side, forms);
  }
  std::vector<State> late;
  for (const Side& side : uses.late) {
    offer(side, late);
    if (!is_leaf) offer(side, forms);
  }
  LabelMeaning kept;
  if (is_leaf) kept.forms.emplace_back();
  for (State form : forms) kept.forms.push_back({form});
  for (size_t i = 0; i < late.size() && uses.late.size() > 1 && max_forms(graph_.mesh.num_axes(), 2) > 1; ++i) {
    for (size_t j = i + 1; j < late.size(); ++j) {
      if (pays_to_keep(of_tensor, late[i], late[j], all_forms(made), early)) kept.forms.push_back({late[i], late[j]});
    }
  }
  int id = intern(std::move(kept));
  return {add_variable(meanings_[static_cast<size_t>(id)].forms.size()), id};
}

/// Keeping both forms can be cheaper than making either of the other in backward.
bool SearchNetwork::pays_to_keep(int of_tensor, State a, State b, const std::vector<State>& made,
                                 const std::vector<State>& early) {
  if (gives_free(of_tensor, a, b) || gives_free(of_tensor, b, a)) return false;
  for (State from : made) {
    for (size_t e = 0; e <= early.size(); ++e) {
      std::vector<State> targets;
      if (e < early.size()) targets.push_back(early[e]);
      auto with = [&](std::vector<State> more) {
        more.insert(more.end(), targets.begin(), targets.end());
        return provide_charge(of_tensor, {from}, more);
      };
      Charge both = with({a, b});
      Charge a_then_b = with({a});
      a_then_b += provide_charge(of_tensor, {a}, {b});
      Charge b_then_a = with({b});
      b_then_a += provide_charge(of_tensor, {b}, {a});
      if (both < a_then_b && both < b_then_a) return true;
    }
  }
  return false;
}

}  // namespace tpc
