#include "compiler/ops/einsum.h"

#include <fmt/format.h>

#include "compiler/ops/op_def.h"

namespace tpc {
namespace {

bool has_letter(std::string_view term, char letter) { return term.find(letter) != std::string_view::npos; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

[[noreturn]] void fail(std::string_view text, const std::string& why) {
  throw OpTypeError(fmt::format("einsum \"{}\": {}", text, why));
}

void check_term(std::string_view text, std::string_view term) {
  for (size_t i = 0; i < term.size(); ++i) {
    if (!is_letter(term[i])) fail(text, fmt::format("wanted letters a-z and A-Z, found '{}'", term[i]));
    if (has_letter(term.substr(0, i), term[i])) {
      fail(text, fmt::format("letter '{}' is twice in \"{}\"", term[i], term));
    }
  }
}

}  // namespace

Einsum parse_einsum(std::string_view text) {
  size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) fail(text, "wanted \"<letters>,<letters>-><letters>\", found no \"->\"");
  std::string_view operands = text.substr(0, arrow);
  size_t comma = operands.find(',');
  if (comma == std::string_view::npos) fail(text, "wanted two operands, found one");
  if (operands.find(',', comma + 1) != std::string_view::npos) fail(text, "wanted two operands, found more");

  Einsum einsum{std::string(operands.substr(0, comma)), std::string(operands.substr(comma + 1)),
                std::string(text.substr(arrow + 2))};
  for (std::string_view term : {std::string_view(einsum.x), std::string_view(einsum.w), std::string_view(einsum.y)}) {
    check_term(text, term);
  }
  for (char letter : einsum.x + einsum.w) {
    bool is_shared = has_letter(einsum.x, letter) && has_letter(einsum.w, letter);
    if (!is_shared && !has_letter(einsum.y, letter)) {
      fail(text, fmt::format("letter '{}' is in one operand only and not in the result", letter));
    }
  }
  for (char letter : einsum.y) {
    if (!has_letter(einsum.x, letter) && !has_letter(einsum.w, letter)) {
      fail(text, fmt::format("letter '{}' of the result is in no operand", letter));
    }
  }
  return einsum;
}

std::string to_string(const Einsum& einsum) { return fmt::format("{},{}->{}", einsum.x, einsum.w, einsum.y); }

EinsumGroups einsum_groups(const Einsum& einsum) {
  EinsumGroups groups;
  for (char letter : einsum.y) {
    bool in_x = has_letter(einsum.x, letter);
    bool in_w = has_letter(einsum.w, letter);
    (in_x && in_w ? groups.batch : in_x ? groups.m : groups.n) += letter;
  }
  for (char letter : einsum.x) {
    if (!has_letter(einsum.y, letter)) groups.k += letter;
  }
  return groups;
}

int64_t letter_size(const Einsum& einsum, const Shape& x, const Shape& w, char letter) {
  if (size_t dim = einsum.x.find(letter); dim != std::string::npos) return x[dim];
  if (size_t dim = einsum.w.find(letter); dim != std::string::npos) return w[dim];
  return -1;
}

int64_t letters_size(const Einsum& einsum, const Shape& x, const Shape& w, std::string_view letters) {
  int64_t size = 1;
  for (char letter : letters) size *= letter_size(einsum, x, w, letter);
  return size;
}

Shape einsum_shape(const Einsum& einsum, const Shape& x, const Shape& w) {
  auto check_rank = [&](std::string_view term, const Shape& shape, std::string_view what) {
    if (term.size() == shape.size()) return;
    throw OpTypeError(fmt::format("einsum \"{}\" names {} dimensions of the {} operand (\"{}\"), it has {}: {}",
                                  to_string(einsum), term.size(), what, term, shape.size(), to_string(shape)));
  };
  check_rank(einsum.x, x, "first");
  check_rank(einsum.w, w, "second");
  for (size_t i = 0; i < einsum.x.size(); ++i) {
    size_t j = einsum.w.find(einsum.x[i]);
    if (j == std::string::npos || x[i] == w[j]) continue;
    bool is_contracted = !has_letter(einsum.y, einsum.x[i]);
    throw OpTypeError(fmt::format("{} dimensions differ: {} and {} (letter '{}' of \"{}\", shapes {} and {})",
                                  is_contracted ? "contracted" : "batch", x[i], w[j], einsum.x[i], to_string(einsum),
                                  to_string(x), to_string(w)));
  }
  Shape y;
  for (char letter : einsum.y) y.push_back(letter_size(einsum, x, w, letter));
  return y;
}

}  // namespace tpc
