/// Dimensions as products of parts that shrink together: which sizes of a plan can be made smaller, and by how much,
/// without changing how its tensors fit together and lie on ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpc::verify {

/// A dimension is a product of atoms, outermost first: [heads, head_dim] merged is one dimension of two atoms. Where it
/// may be taken apart are its cuts: products of its innermost atoms. Equal dimensions share their atoms, and so do the
/// two sides of a reshape.
///
/// Dimensions and what holds of them are told first, then solve() gives every atom its new size.
class DimAtoms {
 public:
  /// Returns the dimension's number.
  int add(int64_t size);
  /// The two are one index. They must have one size.
  void unite(int a, int b);
  /// The innermost `shared` indices of the two runs of dimensions are the same, in order; `shared` divides the product
  /// of each.
  void relate(std::vector<int> a, std::vector<int> b, int64_t shared);
  /// Innermost `below` indices are a unit; `below` divides the size.
  void cut(int dim, int64_t below);
  /// What the dimension counts in units of `below` keeps its number.
  void keep_above(int dim, int64_t below);
  /// The dimension lies on `parts` ranks in units of `unit`: they must divide as evenly or unevenly as before.
  void divide(int dim, int64_t unit, int64_t parts);
  /// A unit of `below` stays a multiple of `factor`.
  void keep_multiple(int dim, int64_t below, int64_t factor);

  void solve();

  int64_t size(int dim) const { return sizes_[static_cast<size_t>(dim)]; }
  /// The unit of `below` indices, which is a cut, after solve().
  int64_t shrunk(int dim, int64_t below) const;
  int64_t shrunk(int dim) const { return shrunk(dim, size(dim)); }
  /// Makes the dimension larger by the smallest step that keeps all of the above; false when it has its old size.
  bool grow(int dim);

 private:
  struct Relation {
    std::vector<int> a;
    std::vector<int> b;
    int64_t shared = 1;
  };
  struct Kept {
    int dim = 0;
    int64_t below = 1;
  };
  struct Divided {
    int dim = 0;
    int64_t unit = 1;
    int64_t parts = 1;
  };
  struct Atom {
    int64_t size = 1;
    int64_t shrunk = 1;
    int64_t modulus = 1;
    bool is_fixed = false;
  };

  int root(int dim) const;
  std::vector<int64_t>& cuts(int dim) { return cuts_[static_cast<size_t>(root(dim))]; }
  const std::vector<int64_t>& cuts(int dim) const { return cuts_[static_cast<size_t>(root(dim))]; }
  /// Whether a cut was added; marks the dimension rigid where it does not fit between the others.
  bool add_cut(int dim, int64_t below);
  bool add_point(const std::vector<int>& run, int64_t point);
  std::vector<int64_t> points(const std::vector<int>& run) const;
  void share_cuts();
  void spread_rigidity();
  void make_atoms();
  void unite_atoms();
  int atom_root(int atom) const;
  Atom& atom(int index) { return atoms_[static_cast<size_t>(atom_root(index))]; }
  const Atom& atom(int index) const { return atoms_[static_cast<size_t>(atom_root(index))]; }
  /// Of the dimension, innermost first, between cuts `from` and `to`.
  std::vector<int> atoms_between(int dim, int64_t from, int64_t to) const;
  void constrain(const Divided& divided);
  static int64_t smallest(const Atom& atom);

  std::vector<int64_t> sizes_;
  mutable std::vector<int> parents_;
  std::vector<std::vector<int64_t>> cuts_;  ///< by root: 1, ..., size
  std::vector<bool> is_rigid_;              ///< by root
  std::vector<Relation> relations_;
  std::vector<Kept> kept_;
  std::vector<Divided> divided_;
  std::vector<Divided> multiples_;  ///< of `parts`
  std::vector<int> first_atom_;     ///< by root
  std::vector<Atom> atoms_;
  mutable std::vector<int> atom_parents_;
};

}  // namespace tpc::verify
