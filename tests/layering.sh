#!/usr/bin/env bash
# Checks every #include against the table of what a folder may include; prints file:line of each that may not.
# usage: tests/layering.sh [ROOT]     exit 0: clean, 1: violations
set -euo pipefail

cd "${1:-$(dirname "$0")/..}"

# shellcheck disable=SC2016  # the $ are awk's
find compiler passes runtime tests benchmarks -type f \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) -print0 2>/dev/null |
  sort -z |
  xargs -0 -r awk '
    # A folder: what it may include besides itself.
    BEGIN {
      core = "compiler/core"
      ir = core " compiler/sharding compiler/ir"
      plan = ir " compiler/ops compiler/plan"

      allow("compiler/core", "")
      allow("compiler/sharding", core)
      allow("compiler/ir", core " compiler/sharding")
      allow("compiler/ops", ir)
      allow("compiler/frontend", ir " compiler/ops")
      allow("compiler/plan", ir " compiler/ops")
      allow("compiler/lowering", plan)
      # The verifier shares neither the op rules nor the conversions that plans are made with.
      allow("compiler/verify", "compiler/core compiler/ir compiler/plan")
      allow("compiler/verify/numeric", "compiler/core compiler/ir compiler/plan compiler/sharding compiler/verify")
      allow("compiler", plan " compiler/frontend compiler/lowering passes")
      allow("passes", plan " compiler/verify compiler/verify/numeric passes/solver passes/strategies")
      allow("passes/solver", core)
      allow("passes/strategies", plan " passes passes/solver")
      # The program proves a plan before it runs it.
      allow("runtime", plan " compiler/frontend compiler/lowering passes runtime/check runtime/cpu runtime/launch runtime/threads")
      allow("runtime/check", plan " compiler/lowering runtime")
      allow("runtime/cpu", plan " compiler/lowering runtime")
      # Compilers other than nvcc see the kernels through the emulation.
      allow("runtime/cuda", plan " compiler/lowering runtime runtime/cuda/kernels tests/emulation")
      allow("runtime/cuda/cudnn", "compiler/core compiler/ops compiler/lowering runtime runtime/cuda runtime/cuda/kernels")
      allow("runtime/cuda/kernels", plan " compiler/lowering runtime runtime/cuda")
      allow("runtime/launch", core " runtime")
      allow("runtime/threads", plan " compiler/lowering runtime")
      allow("tests/emulation", "")
      # Stands in for the libraries and knows nothing of what calls them.
      allow("tests/fake_cuda", "runtime/cuda tests/emulation")

      everything = plan " compiler/frontend compiler/lowering compiler/verify compiler/verify/numeric passes passes/solver passes/strategies runtime runtime/check runtime/cpu runtime/cuda runtime/cuda/cudnn runtime/launch runtime/threads tests/cuda tests/emulation tests/fake_cuda tests/kernels tests/support"
      for (i = split("contract cuda cudnn device differential documentation errors faults fuzz golden kernels mutation programs support unit", tests, " "); i > 0; --i) {
        allow("tests/" tests[i], everything)
      }
      allow("benchmarks", everything)
      allow("benchmarks/micro", everything)
    }

    function allow(folder, others,   count, names, i) {
      known[folder] = 1
      allowed[folder, folder] = 1
      count = split(others, names, " ")
      for (i = 1; i <= count; ++i) allowed[folder, names[i]] = 1
    }

    # The row of the table that a path belongs to: below tests/ its first two parts, else its folder.
    function folder_of(path,   parts) {
      if (path ~ /^tests\//) {
        split(path, parts, "/")
        return parts[1] "/" parts[2]
      }
      sub(/\/[^\/]*$/, "", path)
      return path
    }

    function report(message) {
      printf "%s:%d: error: %s\n", FILENAME, FNR, message
      violations = 1
    }

    FNR == 1 {
      folder = folder_of(FILENAME)
      if (!(folder in known)) report("folder \"" folder "\" has no row in the table of tests/layering.sh")
    }

    /^[ \t]*#[ \t]*include[ \t]*"/ {
      path = $0
      sub(/^[^"]*"/, "", path)
      sub(/".*$/, "", path)
      target = folder_of(path)
      if (!(target in known)) {
        report("\"" path "\" is not a path from the root of the repository")
      } else if ((folder in known) && !((folder, target) in allowed)) {
        report(folder " may not include " target " (\"" path "\")")
      }
    }

    /^[ \t]*#[ \t]*include[ \t]*<nlohmann\// {
      if (FILENAME ~ /\.h$/ && folder ~ /^(compiler|passes|runtime)/ && folder !~ /^compiler\/(frontend|plan)$/) {
        report("nlohmann/json stands in no header outside compiler/frontend and compiler/plan")
      }
    }

    END { exit violations }
  ' || exit 1
