#include "compiler/frontend/name_table.h"

#include <algorithm>
#include <set>

namespace tpc {
namespace {

// Calls `visit` with every scope from the innermost to "", until it answers true.
template <class Visit>
bool any_scope(std::string_view scope, const Visit& visit) {
  for (;; scope = parent_scope(scope)) {
    if (visit(scope)) return true;
    if (scope.empty()) return false;
  }
}

}  // namespace

std::string_view parent_scope(std::string_view scope) {
  if (scope.size() < 2) return "";
  size_t dot = scope.rfind('.', scope.size() - 2);
  return dot == std::string_view::npos ? "" : scope.substr(0, dot + 1);
}

const NameEntry* NameTable::declare(const std::string& full_name, NameEntry entry) {
  auto [place, inserted] = entries_.try_emplace(full_name, entry);
  if (inserted) return nullptr;
  if (place->second.kind != NameEntry::Kind::kCarry) return &place->second;
  place->second = std::move(entry);
  return nullptr;
}

const NameEntry* NameTable::find(std::string_view scope, const std::string& name) const {
  const NameEntry* found = nullptr;
  any_scope(scope, [&](std::string_view prefix) {
    auto entry = entries_.find(std::string(prefix) + name);
    if (entry != entries_.end()) found = &entry->second;
    return found != nullptr;
  });
  return found;
}

bool NameTable::is_broken(std::string_view scope, const std::string& name) const {
  return any_scope(scope, [&](std::string_view prefix) {
    std::string full_name = std::string(prefix) + name;
    return std::any_of(broken_prefixes_.begin(), broken_prefixes_.end(),
                       [&](const std::string& broken) { return full_name.starts_with(broken); });
  });
}

void NameTable::set_broken(const std::string& full_name, const std::string& pointer) {
  entries_.insert_or_assign(full_name, NameEntry{NameEntry::Kind::kBroken, {}, pointer});
}

void NameTable::alias(const std::string& from, const std::string& to) {
  std::vector<std::pair<std::string, NameEntry>> copies;
  for (auto entry = entries_.lower_bound(from); entry != entries_.end() && entry->first.starts_with(from); ++entry) {
    copies.emplace_back(to + entry->first.substr(from.size()), entry->second);
  }
  for (auto& [name, entry] : copies) entries_.insert_or_assign(name, std::move(entry));
}

std::vector<std::string> NameTable::visible(std::string_view scope, const std::vector<NameEntry::Kind>& kinds) const {
  std::vector<std::string> names;
  std::set<std::string> taken;
  any_scope(scope, [&](std::string_view prefix) {
    for (auto entry = entries_.lower_bound(prefix); entry != entries_.end() && entry->first.starts_with(prefix);
         ++entry) {
      if (std::find(kinds.begin(), kinds.end(), entry->second.kind) == kinds.end()) continue;
      std::string name = entry->first.substr(prefix.size());
      if (taken.insert(name).second) names.push_back(std::move(name));
    }
    return false;
  });
  return names;
}

}  // namespace tpc
