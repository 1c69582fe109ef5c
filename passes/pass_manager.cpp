#include "passes/pass_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/core/check.h"
#include "compiler/core/output_file.h"
#include "compiler/ir/printer.h"
#include "passes/registry.h"
#include "passes/verify_graph.h"

namespace tpc {
namespace {

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  write_output_file(path.string(), text);
}

}  // namespace

PassManager::PassManager(const CompileOptions& options, DiagnosticSink& diagnostics)
    : options_(options), context_{options, diagnostics} {}

Graph PassManager::run(std::string_view name, Graph graph) {
  if (stopped_) return graph;
  const PassInfo* pass = find_pass(name);
  TPC_CHECK(pass != nullptr, "no pass is named {}", name);
  TPC_CHECK(stage_ >= pass->needs, "{} needs a {} graph, this one is {}", name, to_string(pass->needs),
            to_string(stage_));
  Graph before = options_.dump_dir.empty() ? Graph() : graph;
  graph = pass->run(std::move(graph), context_);
  context_.diagnostics.throw_if_errors();
  if (std::optional<std::string> broken = verify_graph(graph, pass->gives)) {
    std::string where;
    if (!options_.dump_dir.empty()) {
      dump(fmt::format("{}-before", name), before);
      dump(fmt::format("{}-broken", name), graph);
      where = fmt::format("; graphs before and after are in {}", options_.dump_dir);
    }
    TPC_UNREACHABLE("pass {} broke the graph: {}{}", name, *broken, where);
  }
  stage_ = pass->gives;
  ++num_run_;
  const std::vector<std::string>& wanted = options_.print_after;
  auto asked = [&](std::string_view what) { return std::find(wanted.begin(), wanted.end(), what) != wanted.end(); };
  if (asked(name) || asked("all")) printed_ += fmt::format("# after {}\n{}\n", name, print(graph));
  if (!options_.dump_dir.empty()) dump(name, graph);
  if (options_.stop_after == name) stopped_ = true;
  return graph;
}

void PassManager::dump(std::string_view name, const Graph& graph) const {
  std::filesystem::path folder(options_.dump_dir);
  write_file(folder / fmt::format("{:02}-{}.ir", num_run_, name), print(graph));
}

}  // namespace tpc
