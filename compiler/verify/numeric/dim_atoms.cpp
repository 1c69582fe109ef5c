#include "compiler/verify/numeric/dim_atoms.h"

#include <algorithm>
#include <numeric>

#include "compiler/core/check.h"

namespace tpc::verify {
namespace {

int find_root(std::vector<int>& parents, int index) {
  while (parents[static_cast<size_t>(index)] != index) {
    int& parent = parents[static_cast<size_t>(index)];
    parent = parents[static_cast<size_t>(parent)];
    index = parent;
  }
  return index;
}

}  // namespace

int DimAtoms::add(int64_t size) {
  auto dim = static_cast<int>(sizes_.size());
  sizes_.push_back(size);
  parents_.push_back(dim);
  cuts_.push_back(size == 1 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, size});
  is_rigid_.push_back(false);
  return dim;
}

int DimAtoms::root(int dim) const { return find_root(parents_, dim); }
int DimAtoms::atom_root(int index) const { return find_root(atom_parents_, index); }

void DimAtoms::unite(int a, int b) {
  TPC_CHECK(size(a) == size(b), "dimensions of {} and {}", size(a), size(b));
  int from = root(b);
  int to = root(a);
  if (from == to) return;
  parents_[static_cast<size_t>(from)] = to;
  if (is_rigid_[static_cast<size_t>(from)]) is_rigid_[static_cast<size_t>(to)] = true;
  for (int64_t below : std::vector<int64_t>(cuts_[static_cast<size_t>(from)])) add_cut(to, below);
}

void DimAtoms::relate(std::vector<int> a, std::vector<int> b, int64_t shared) {
  relations_.push_back({std::move(a), std::move(b), shared});
}

void DimAtoms::cut(int dim, int64_t below) { add_cut(dim, below); }

void DimAtoms::keep_above(int dim, int64_t below) {
  add_cut(dim, below);
  kept_.push_back({dim, below});
}

void DimAtoms::divide(int dim, int64_t unit, int64_t parts) {
  add_cut(dim, unit);
  divided_.push_back({dim, unit, parts});
}

void DimAtoms::keep_multiple(int dim, int64_t below, int64_t factor) {
  add_cut(dim, below);
  multiples_.push_back({dim, below, factor});
}

bool DimAtoms::add_cut(int dim, int64_t below) {
  std::vector<int64_t>& list = cuts(dim);
  auto next = std::lower_bound(list.begin(), list.end(), below);
  if (next != list.end() && *next == below) return false;
  bool fits = next != list.begin() && next != list.end() && below % *std::prev(next) == 0 && *next % below == 0;
  if (fits) {
    list.insert(next, below);
  } else {
    is_rigid_[static_cast<size_t>(root(dim))] = true;
  }
  return fits;
}

std::vector<int64_t> DimAtoms::points(const std::vector<int>& run) const {
  std::vector<int64_t> list;
  int64_t inner = 1;
  for (size_t i = run.size(); i > 0; --i) {
    for (int64_t below : cuts(run[i - 1])) list.push_back(inner * below);
    inner *= size(run[i - 1]);
  }
  return list;
}

bool DimAtoms::add_point(const std::vector<int>& run, int64_t point) {
  int64_t inner = 1;
  for (size_t i = run.size(); i > 0; --i) {
    int dim = run[i - 1];
    if (point > inner && point < inner * size(dim)) {
      if (point % inner == 0) return add_cut(dim, point / inner);
      is_rigid_[static_cast<size_t>(root(dim))] = true;
      return false;
    }
    inner *= size(dim);
  }
  return false;
}

// Until nothing is added: a cut on one side of a relation is a cut on the other.
void DimAtoms::share_cuts() {
  for (bool changes = true; changes;) {
    changes = false;
    for (const Relation& relation : relations_) {
      for (bool forward : {true, false}) {
        for (int64_t point : points(forward ? relation.a : relation.b)) {
          if (point <= relation.shared) changes = add_point(forward ? relation.b : relation.a, point) || changes;
        }
      }
    }
  }
}

void DimAtoms::spread_rigidity() {
  for (bool changes = true; changes;) {
    changes = false;
    for (const Relation& relation : relations_) {
      auto rigid = [&](int dim) { return is_rigid_[static_cast<size_t>(root(dim))]; };
      bool is_rigid = std::any_of(relation.a.begin(), relation.a.end(), rigid) ||
                      std::any_of(relation.b.begin(), relation.b.end(), rigid);
      if (!is_rigid) continue;
      for (const std::vector<int>* run : {&relation.a, &relation.b}) {
        for (int dim : *run) {
          changes = changes || !rigid(dim);
          is_rigid_[static_cast<size_t>(root(dim))] = true;
        }
      }
    }
  }
}

void DimAtoms::make_atoms() {
  first_atom_.assign(sizes_.size(), 0);
  for (size_t dim = 0; dim < sizes_.size(); ++dim) {
    if (root(static_cast<int>(dim)) != static_cast<int>(dim)) continue;
    first_atom_[dim] = static_cast<int>(atoms_.size());
    for (size_t i = 0; i + 1 < cuts_[dim].size(); ++i)
      atoms_.push_back({cuts_[dim][i + 1] / cuts_[dim][i], 1, 1, is_rigid_[dim]});
  }
  atom_parents_.resize(atoms_.size());
  std::iota(atom_parents_.begin(), atom_parents_.end(), 0);
}

std::vector<int> DimAtoms::atoms_between(int dim, int64_t from, int64_t to) const {
  const std::vector<int64_t>& list = cuts(dim);
  std::vector<int> found;
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    if (list[i] >= from && list[i + 1] <= to)
      found.push_back(first_atom_[static_cast<size_t>(root(dim))] + static_cast<int>(i));
  }
  return found;
}

void DimAtoms::unite_atoms() {
  for (const Relation& relation : relations_) {
    if (is_rigid_[static_cast<size_t>(root(relation.a.back()))]) continue;
    auto shared_atoms = [&](const std::vector<int>& run) {
      std::vector<int> list;
      int64_t inner = 1;
      for (size_t i = run.size(); i > 0 && inner < relation.shared; --i) {
        for (int found : atoms_between(run[i - 1], 1, relation.shared / inner)) list.push_back(found);
        inner *= size(run[i - 1]);
      }
      return list;
    };
    std::vector<int> a = shared_atoms(relation.a);
    std::vector<int> b = shared_atoms(relation.b);
    TPC_CHECK(a.size() == b.size(), "{} parts of one side, {} of the other", a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      Atom& kept = atom(a[i]);
      const Atom& joined = atom(b[i]);
      TPC_CHECK(kept.size == joined.size, "parts of {} and {}", kept.size, joined.size);
      kept.is_fixed = kept.is_fixed || joined.is_fixed;
      atom_parents_[static_cast<size_t>(atom_root(b[i]))] = atom_root(a[i]);
    }
  }
}

// Even parts divide the outer atoms as far as they go: the others are free. Of uneven parts every atom keeps its
// remainder, and so does their product.
void DimAtoms::constrain(const Divided& divided) {
  std::vector<int> above = atoms_between(divided.dim, divided.unit, size(divided.dim));
  if (size(divided.dim) / divided.unit % divided.parts == 0) {
    int64_t parts = divided.parts;
    std::vector<int> filled;
    for (size_t i = above.size(); i > 0; --i) {
      Atom& outer = atom(above[i - 1]);
      if (outer.size % parts == 0) {
        outer.modulus = std::lcm(outer.modulus, parts);
        for (int whole : filled) atom(whole).is_fixed = true;
        return;
      }
      if (parts % outer.size != 0) break;
      parts /= outer.size;
      filled.push_back(above[i - 1]);
    }
  }
  for (int index : above) atom(index).modulus = std::lcm(atom(index).modulus, divided.parts);
}

// Two for each part, so that order within a part shows; of many parts one, for there are many.
int64_t DimAtoms::smallest(const Atom& atom) {
  constexpr int64_t kManyParts = 4;
  if (atom.is_fixed || atom.size <= 2 * atom.modulus) return atom.size;
  return (atom.modulus <= kManyParts ? 2 : 1) * atom.modulus + atom.size % atom.modulus;
}

void DimAtoms::solve() {
  share_cuts();
  spread_rigidity();
  make_atoms();
  unite_atoms();
  for (const Kept& kept : kept_) {
    for (int index : atoms_between(kept.dim, kept.below, size(kept.dim))) atom(index).is_fixed = true;
  }
  for (const Divided& divided : divided_) constrain(divided);
  for (const Divided& multiple : multiples_) {
    std::vector<int> below = atoms_between(multiple.dim, 1, multiple.unit);
    for (int index : below) {
      if (atom(index).size % multiple.parts == 0 || below.size() == 1)
        atom(index).modulus = std::lcm(atom(index).modulus, multiple.parts);
    }
  }
  for (Atom& made : atoms_) made.shrunk = smallest(made);
}

int64_t DimAtoms::shrunk(int dim, int64_t below) const {
  if (is_rigid_[static_cast<size_t>(root(dim))]) return below;
  int64_t product = 1;
  for (int index : atoms_between(dim, 1, below)) product *= atom(index).shrunk;
  return product;
}

bool DimAtoms::grow(int dim) {
  for (int index : atoms_between(dim, 1, size(dim))) {
    Atom& grown = atom(index);
    if (grown.is_fixed || grown.shrunk + grown.modulus > grown.size) continue;
    grown.shrunk += grown.modulus;
    return true;
  }
  return false;
}

}  // namespace tpc::verify
