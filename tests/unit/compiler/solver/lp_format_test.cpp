#include "passes/solver/lp_format.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "passes/solver/elimination.h"
#include "tests/unit/compiler/solver/random_network.h"

namespace tpc {
namespace {

TEST_CASE("lp format: a small network") {
  CostNetwork network;
  int a = network.add_variable(2);
  int b = network.add_variable(2);
  network.add_factor({a}, network.add_table({2}, {5, kInfeasible}));
  network.add_factor({a, b}, network.add_table({2, 2}, {0, 12345678901234567, kInfeasible, 3}));
  network.add_factor({}, network.add_table({}, {7}));
  CHECK(lp_format(network) ==
        "Minimize\n"
        " cost: + 7 one + 5 x_0_0 + 12345678901234567 y_1_1 + 3 y_1_3\n"
        "Subject To\n"
        " c0: one = 1\n"
        " c1: x_0_1 = 0\n"
        " c2: + 1 x_0_0 + 1 x_0_1 = 1\n"
        " c3: + 1 x_1_0 + 1 x_1_1 = 1\n"
        " c4: + 1 y_1_0 + 1 y_1_1 - x_0_0 = 0\n"
        " c5: + 1 y_1_3 - x_0_1 = 0\n"
        " c6: + 1 y_1_0 - x_1_0 = 0\n"
        " c7: + 1 y_1_1 + 1 y_1_3 - x_1_1 = 0\n"
        "Binary\n"
        " x_0_0\n"
        " x_0_1\n"
        " x_1_0\n"
        " x_1_1\n"
        "End\n");
}

TEST_CASE("lp format: lines stay short") {
  CostNetwork network;
  int a = network.add_variable(300);
  network.add_factor({a}, network.add_table({300}, std::vector<Cost>(300, Cost{1} << 50)));
  std::string text = lp_format(network);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    CHECK(end - begin < 255);
    begin = end + 1;
  }
}

struct OutsideSolver {
  std::string program;
  std::string before_file;  // arguments
  std::string after_file;
  std::string optimum;                  // what stands before the optimum in its output
  std::vector<std::string> infeasible;  // any of these: there is none
};

const std::vector<OutsideSolver> kSolvers{
    {"cbc", "", "solve", "Objective value:", {"proven infeasible", "is infeasible", "was infeasible"}},
    {"highs", "", "", "Primal bound", {"Infeasible"}},
    {"glpsol", "--lp", "-o /dev/stdout", "Objective:  cost =", {" HAS NO "}},
};

std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) output.append(buffer.data(), count);
  return output;
}

Cost outside_optimum(const OutsideSolver& solver, const CostNetwork& network) {
  auto file = std::filesystem::temp_directory_path() / fmt::format("lp_format_test_{}.lp", getpid());
  std::ofstream(file) << lp_format(network);
  std::string output =
      output_of(fmt::format("{} {} {} {} 2>&1", solver.program, solver.before_file, file.string(), solver.after_file));
  std::filesystem::remove(file);
  for (const std::string& phrase : solver.infeasible) {
    if (output.find(phrase) != std::string::npos) return kInfeasible;
  }
  size_t found = output.find(solver.optimum);
  REQUIRE_MESSAGE(found != std::string::npos, output);
  return static_cast<Cost>(std::llround(std::strtod(output.c_str() + found + solver.optimum.size(), nullptr)));
}

/// The network with costs that a double holds.
CostNetwork with_small_costs(const CostNetwork& network) {
  return edited(network, [](size_t, CostTable& table) {
    for (Cost& entry : table.entries) {
      if (entry < kInfeasible) entry = (entry >> 70) * 100 + entry % 100;
    }
    return true;
  });
}

TEST_CASE("lp format: an outside solver finds the same optimum") {
  bool found = false;
  for (const OutsideSolver& solver : kSolvers) {
    // NOLINTNEXTLINE(cert-env33-c): a fixed command
    if (std::system(fmt::format("command -v {} > /dev/null 2>&1", solver.program).c_str()) != 0) continue;
    found = true;
    CAPTURE(solver.program);
    std::mt19937_64 random(21);
    for (int i = 0; i < 24; ++i) {
      CostNetwork network = with_small_costs(random_network(random, 6));
      CAPTURE(describe(network));
      Cost expected = solve(network).cost;
      CHECK(to_string(outside_optimum(solver, network)) == to_string(expected));
    }
  }
  if (!found) MESSAGE("skipped: none of cbc, highs and glpsol is installed");
}

}  // namespace
}  // namespace tpc
