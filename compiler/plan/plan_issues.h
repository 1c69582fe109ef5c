/// The mistakes found in a plan, with their places in the file.
#pragma once

#include <fmt/format.h>

#include <string>

#include "compiler/core/diagnostic.h"

namespace tpc {

class PlanIssues {
 public:
  explicit PlanIssues(std::string file) : file_(std::move(file)) {}

  /// `member` is a pointer below the tensor or step: "/sharding", "/operands/1", "" for the whole.
  void tensor(int index, std::string_view member, std::string message) {
    add(fmt::format("/tensors/{}{}", index, member), std::move(message));
  }
  void step(int index, std::string_view member, std::string message) {
    add(fmt::format("/steps/{}{}", index, member), std::move(message));
  }
  void add(std::string pointer, std::string message) {
    sink_.error({file_, std::move(pointer)}, std::move(message));
    if (sink_.diagnostics().size() >= kMaxIssues) sink_.throw_if_errors();
  }
  /// Called after each group of checks: the next group relies on it.
  void throw_if_any() const { sink_.throw_if_errors(); }

 private:
  static constexpr size_t kMaxIssues = 20;

  std::string file_;
  DiagnosticSink sink_;
};

}  // namespace tpc
