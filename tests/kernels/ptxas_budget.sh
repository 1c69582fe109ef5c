#!/usr/bin/env bash
# Compiles every .cu of runtime/cuda/kernels for sm_90 and holds each kernel's registers, shared memory and spills to
# tests/kernels/ptxas_budget.txt. A kernel without a line fails with the line to add; --update writes the file anew.
# usage: tests/kernels/ptxas_budget.sh NVCC [--update] [FILE.cu...]     exit 0: within budget, 1: not, 77: no nvcc
set -euo pipefail

cd "$(dirname "$0")/../.."
budget=tests/kernels/ptxas_budget.txt
nvcc=${1:-nvcc}
command -v "$nvcc" > /dev/null || { echo "no nvcc: $nvcc"; exit 77; }
update=""
if [ "${2:-}" = --update ]; then
  update=yes
  shift
fi
shift || true
sources=("$@")
[ ${#sources[@]} -gt 0 ] || sources=(runtime/cuda/kernels/*.cu)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(command -v ccache || true)

# One line a kernel: FILE KERNEL REGISTERS SHARED SPILLED.
measure() {
  local source=$1
  $cache "$nvcc" -arch=sm_90 -std=c++20 -O3 -I. -DFMT_USE_CONSTEXPR=1 -Werror all-warnings -Xptxas -v -c "$source" \
    -o "$work/object.o" > "$work/log" 2>&1 || { cat "$work/log"; return 1; }
  c++filt < "$work/log" | awk -v file="$(basename "$source")" '
    # "void tpc::cuda::(anonymous namespace)::name<types>(parameters)", or a name that is only partly demangled
    function kernel_name(text,   i, depth, c) {
      sub(/^[^\047]*\047/, "", text)
      sub(/\047.*$/, "", text)
      gsub(/\(anonymous namespace\)::|_GLOBAL__N__[A-Za-z0-9_]*::|tpc::cuda::|tpc::/, "", text)
      gsub(/\((int|unsigned int|bool|UnaryFunction|unsigned char)\)/, "", text)
      sub(/^void /, "", text)
      depth = 0
      for (i = 1; i <= length(text); ++i) {
        c = substr(text, i, 1)
        if (c == "<") ++depth
        if (c == ">") --depth
        if (c == "(" && depth == 0) break
      }
      text = substr(text, 1, i - 1)
      gsub(/ /, "", text)
      return text
    }
    /Compiling entry function/ { name = kernel_name($0); spilled = 0 }
    /bytes spill stores/ {
      match($0, /[0-9]+ bytes spill stores/)
      spilled = substr($0, RSTART, RLENGTH) + 0
    }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/)
      registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
      shared = 0
      if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
      print file, name, registers, shared, spilled
    }'
}

for source in "${sources[@]}"; do measure "$source"; done | LC_ALL=C sort > "$work/found"

if [ -n "$update" ]; then
  {
    echo "# What a thread and a block of every kernel may use on sm_90, without spills. tests/kernels/ptxas_budget.sh"
    echo "# file kernel registers shared_bytes"
    cut -d ' ' -f 1-4 "$work/found"
  } > "$budget"
  exit 0
fi

awk '
  FNR == NR {
    if ($0 !~ /^#/) { registers[$1, $2] = $3; shared[$1, $2] = $4 }
    next
  }
  {
    if (!(($1, $2) in registers)) {
      printf "%s: %s has no budget; if its use is right, add: %s %s %d %d\n", $1, $2, $1, $2, $3, $4
      failed = 1
      next
    }
    if ($5 > 0) { printf "%s: %s spills %d bytes\n", $1, $2, $5; failed = 1 }
    if ($3 > registers[$1, $2]) {
      printf "%s: %s uses %d registers, %d are its budget\n", $1, $2, $3, registers[$1, $2]
      failed = 1
    }
    if ($4 > shared[$1, $2]) {
      printf "%s: %s uses %d bytes of shared memory, %d are its budget\n", $1, $2, $4, shared[$1, $2]
      failed = 1
    }
    ++count
  }
  END {
    if (!failed) printf "%d kernels within their budget\n", count
    exit failed
  }' "$budget" "$work/found"
