#!/usr/bin/env bash
# Tests and measures tpc on this machine's GPU, in some minutes; docs/gpu.md says what the figures mean.
# usage: tests/device/run.sh [--json FILE] [--minutes M] [--build FOLDER] [--tiny]
#   --json FILE      the results, one JSON object (default: build/device.json)
#   --minutes M      no part begins, and none goes on, after so many minutes (default 8)
#   --build FOLDER   where the programs are, or are built into (default: build/release); programs that lie there
#                    without a build are taken as they are
#   --tiny           tiny models in place of those that are measured: tries this script, also on a module that
#                    TPC_CUDA_MODULE names
# Without a GPU: exit 0 and {"skipped": "why"}. Else 0 when every part is done, 1 when one failed or had no time.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

json=build/device.json
minutes=8
build=build/release
tiny=
usage() { sed -n '3,10s/^# \{0,1\}//p' "$0"; }
while (($# > 0)); do
  case $1 in
    --json | --minutes | --build)
      if (($# < 2)); then
        echo "run.sh: $1 needs a value" >&2
        exit 2
      fi
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --tiny) tiny=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *)
      echo "run.sh: unknown option '$1'" >&2
      usage >&2
      exit 2
      ;;
  esac
done
if [[ ! $minutes =~ ^[1-9][0-9]*$ ]]; then
  echo "run.sh: --minutes is a whole number from 1, not '$minutes'" >&2
  exit 2
fi
deadline=$((SECONDS + 60 * minutes))
part_deadline=$deadline

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$(dirname "$json")"

# quoted TEXT: as a string of JSON
quoted() {
  printf '"%s"' "$(printf %s "$1" | tr '\n\t' '  ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}
skip() {
  printf '{"skipped": %s}\n' "$(quoted "$1")" | tee "$json"
  exit 0
}
# limited COMMAND...: ended when the part's time is over
limited() {
  local left=$((part_deadline - SECONDS))
  ((left > 0)) || return 124
  timeout -k 5 "$left" "$@"
}

parts=()
failures=0
# part NAME SECONDS FUNCTION...: the function's output is an object of JSON, what it says to standard error is kept and
# shown where it fails.
part() {
  local name=$1 limit=$2 value status="done" begin=$SECONDS left=$((deadline - SECONDS)) note=
  shift 2
  printf '== %-28s' "$name" >&2
  if ((left < 5)); then
    status="no time left" value='{}'
  else
    part_deadline=$((SECONDS + (limit < left ? limit : left)))
    value=$("$@" 2>"$tmp/log")
    case $? in
      0) ;;
      124 | 137) status="not ended in time" ;;
      *) status=failed ;;
    esac
    [[ $value == \{* ]] || value='{}'
  fi
  if [[ $status != "done" ]]; then
    failures=$((failures + 1))
    note=$(tail -n 5 "$tmp/log" 2>/dev/null)
  fi
  printf '%4d s  %s\n' $((SECONDS - begin)) "$status" >&2
  [[ -z $note ]] || printf '%s\n' "$note" >&2
  [[ $value == '{}' ]] || printf '%s\n' "$value" | head -c 2000 >&2
  parts+=("$(printf '{"part": %s, "status": %s, "seconds": %d, "note": %s, "result": %s}' "$(quoted "$name")" \
    "$(quoted "$status")" $((SECONDS - begin)) "$(quoted "$note")" "$value")")
}

# field FILE NAME: a number of a JSON object on one line
field() { sed -n "s/.*\"$2\":\([-0-9.e+]*\).*/\1/p" "$1" | head -n 1; }
# plan NAME MODEL FLAGS...: writes $tmp/NAME.json
plan() {
  local name=$1 model=$2
  shift 2
  limited "$build/bin/tpc" shard "models/$model.json" "$@" -o "$tmp/$name.json" >/dev/null
}
# train NAME PLAN FLAGS...: leaves $tmp/NAME.jsonl and $tmp/NAME.summary
train() {
  local name=$1 run=$2
  shift 2
  limited "$build/bin/tprun" "$tmp/$run.json" --quiet --metrics "$tmp/$name.jsonl" --summary "$tmp/$name.summary" "$@" >&2
}
# Largest difference of the losses of two runs, relative to the first's.
loss_difference() {
  paste <(sed 's/.*"loss":\([^,}]*\).*/\1/' "$tmp/$1.jsonl") <(sed 's/.*"loss":\([^,}]*\).*/\1/' "$tmp/$2.jsonl") |
    awk 'NF != 2 { bad = 1 } { d = ($1 - $2) / ($1 == 0 ? 1 : $1); d = d < 0 ? -d : d; if (!(d <= worst)) worst = d }
         END { if (NR == 0 || bad) print "nan"; else printf "%.3g\n", worst }'
}
# same_losses A B LIMIT: an object that tells, and whether they are within the limit
same_losses() {
  local difference
  difference=$(loss_difference "$1" "$2")
  printf '{"steps": %s, "first_loss": %s, "last_loss": %s, "largest_difference": %s, "limit": %s}' \
    "$(wc -l <"$tmp/$2.jsonl")" "$(field "$tmp/$2.summary" first_loss)" "$(field "$tmp/$2.summary" last_loss)" \
    "$(quoted "$difference")" "$3"
  awk -v d="$difference" -v limit="$3" 'BEGIN { exit !(d != "nan" && d <= limit) }'
}

describe_machine() {
  local gpus libraries
  gpus=$(nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.sm,power.limit,mig.mode.current \
    --format=csv,noheader 2>/dev/null)
  libraries=$(ldd "$build/bin/tprun_cuda.so" 2>/dev/null | awk '/cudart|cublasLt|nccl/ { print $3 }' |
    xargs -r readlink -f | xargs -r -n 1 basename | tr '\n' ' ')
  printf '{"date": %s, "commit": %s, "gpus": %s, "nvcc": %s, "libraries": %s, "cores": %d, "host": %s}' \
    "$(quoted "$(date -u +%F)")" "$(quoted "$(git describe --always --dirty 2>/dev/null || echo unknown)")" \
    "$(quoted "$gpus")" "$(quoted "$(nvcc --version 2>/dev/null | tail -n 1)")" "$(quoted "$libraries")" "$(nproc)" \
    "$(quoted "$(uname -sr), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)")"
}

device_tests() {
  local code
  [[ -z $tiny ]] || return 0
  limited "$build/tests/tpc_test_device" >"$tmp/tests" 2>&1
  code=$?
  ((code == 0)) || grep -E 'ERROR|TEST CASE|differs|CHECK' "$tmp/tests" | head -n 40 >&2
  awk -F'[|:]' '/test cases:/ { gsub(/[a-z ]/, ""); printf "{\"cases\": %d, \"passed\": %d, \"failed\": %d", $2, $3, $4 }
    /MESSAGE: skipped/ { ++skipped } END { printf ", \"skips\": %d}", skipped }' "$tmp/tests"
  return $code
}

# like_cpu NAME MODEL STEPS LIMIT FLAGS...: the losses of a run on the GPU are the cpu's
like_cpu() {
  local name=$1 model=$2 steps=$3 limit=$4
  shift 4
  plan "$name" "$model" "$@" || return
  train "$name.cpu" "$name" --steps "$steps" || return
  train "$name.cuda" "$name" --steps "$steps" --device cuda || return
  same_losses "$name.cpu" "$name.cuda" "$limit"
}

two_ranks_on_one_gpu() {
  local name
  for name in one two; do plan "$name" "${tiny_gpt[0]}" "${tiny_gpt[@]:1}" --tp "$([[ $name == one ]] && echo 1 || echo 2)" || return; done
  train one.cuda one --steps 5 --device cuda || return
  train two.cuda two --steps 5 --device cuda --allow-shared-gpu --timeout 30 || return
  same_losses one.cuda two.cuda 1e-4
}

# memory_of NAME: of a run's fullest rank
memory_of() {
  local arena plan used
  arena=$(field "$tmp/$1.summary" arena) plan=$(field "$tmp/$1.summary" plan) used=$(field "$tmp/$1.summary" used)
  awk -v a="${arena:-0}" -v p="${plan:-0}" -v u="${used:-0}" \
    'BEGIN { printf "{\"arena\": %d, \"plan\": %d, \"used\": %d, \"used_by_plan\": %.4f}", a, p, u, p > 0 ? u / p : 0 }'
}

# A dense bf16 H200 or H100 (SXM).
peak_tflops=989
# speed NAME BATCH SEQ LAYERS HIDDEN LOOKED_UP: of the run of plan NAME. A token costs 6 N + 12 L d T flops: N the
# parameters that multiply (LOOKED_UP are only looked up), and attention as if no part of it were masked.
speed() {
  local name=$1 parameters
  parameters=$("$build/bin/tpc" report "$tmp/$name.json" --json | sed -n 's/ *"parameters": \([0-9]*\).*/\1/p' | head -n 1)
  awk -v ms="$(field "$tmp/$name.summary" median_ms)" -v batch="$2" -v t="$3" -v l="$4" -v d="$5" \
    -v n="$((parameters - $6))" -v peak=$peak_tflops -v memory="$(memory_of "$name")" 'BEGIN {
      flops = 6 * n + 12 * l * d * t; tokens = batch * t / ms * 1e3; tflops = tokens * flops / 1e12
      printf "{\"batch\": %d, \"seq\": %d, \"layers\": %d, \"hidden\": %d, \"parameters_that_multiply\": %.0f, ", batch, t, l, d, n
      printf "\"flops_a_token\": %.4g, \"median_ms\": %.3f, \"tokens_per_s\": %.0f, \"tflops\": %.1f, ", flops, ms, tokens, tflops
      printf "\"peak_tflops\": %d, \"mfu\": %.4f, \"device_memory\": %s}", peak, tflops / peak, memory }'
}

# gpt2 BATCHES: GPT-2 124M at 1024 tokens with the first batch that fits
gpt2_speed() {
  local batch
  for batch in "${gpt2_batches[@]}"; do
    plan gpt2 gpt2_124m --precision bf16 --batch "$batch" "${gpt2[@]}" || return
    if train gpt2 gpt2 --steps "$speed_steps" --device cuda --tune --no-verify; then
      speed gpt2 "$batch" "$gpt2_seq" "$gpt2_layers" "$gpt2_hidden" 0
      return
    fi
  done
  return 1
}

llama_speed() {
  plan llama llama3_405b --precision bf16 --batch 1 "${llama[@]}" || return
  train llama llama --steps "$speed_steps" --device cuda --tune --no-verify || return
  speed llama 1 "$llama_seq" "$llama_layers" "$llama_hidden" $((llama_vocab * llama_hidden))
}

# profile_of NAME: totals by op of the run of a plan that was measured before
profile_of() {
  [[ -e $tmp/$1.json ]] || { echo "no plan: its run failed" >&2; return 1; }
  limited "$build/bin/tprun" "$tmp/$1.json" --device cuda --tune --no-verify --quiet --steps 4 --profile "$tmp/$1.profile" >&2 ||
    return
  cp "$tmp/$1.profile" "${json%.json}.$1.profile.json"
  printf '{%s}' "$(sed -n '/^ "totals": \[/,/^ \]/p' "$tmp/$1.profile" | tr -s ' \n' ' ')"
}

if [[ -n $tiny ]]; then
  tiny_gpt=(small_gpt --batch 2 --seq 8 --dim hidden=32 --dim heads=4 --dim head_dim=8 --dim ffn=64 --dim vocab=40)
  tiny_gpt2=(gpt2_124m --batch 1 --seq 4 --dim layers=1 --dim hidden=16 --dim heads=2 --dim head_dim=8 --dim ffn=32 --dim vocab=40 --dim max_positions=8)
  small_steps=3 gpt2_steps=2 speed_steps=2
  gpt2_batches=(1) gpt2_seq=4 gpt2_layers=1 gpt2_hidden=16
  llama_seq=4 llama_layers=1 llama_hidden=16 llama_vocab=40
  gpt2=("${tiny_gpt2[@]:3}")
  llama=(--seq 4 --dim layers=1 --dim hidden=16 --dim heads=2 --dim kv_heads=1 --dim head_dim=8 --dim ffn=24 --dim vocab=40)
else
  tiny_gpt=(small_gpt)
  tiny_gpt2=(gpt2_124m)
  small_steps=50 gpt2_steps=5 speed_steps=20
  gpt2_batches=(64 32 16 8) gpt2_seq=1024 gpt2_layers=12 gpt2_hidden=768
  llama_seq=8192 llama_layers=4 llama_hidden=4096 llama_vocab=32000
  gpt2=(--seq 1024)
  llama=(--seq 8192 --dim hidden=4096 --dim heads=32 --dim kv_heads=8 --dim head_dim=128 --dim ffn=14336 --dim layers=4 --dim vocab=32000)
  # What runs in a container may have the device and no nvidia-smi.
  if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]] && ! nvidia-smi -L >/dev/null 2>&1; then
    skip "no NVIDIA driver: there is no /dev/nvidiactl, and nvidia-smi does not run"
  fi
fi

has_programs() {
  [[ -x $build/bin/tpc && -x $build/bin/tprun ]] && [[ -n $tiny || (-e $build/bin/tprun_cuda.so && -x $build/tests/tpc_test_device) ]]
}
build_programs() {
  local targets=(tpc tprun) code
  [[ -n $tiny ]] || targets+=(tprun_cuda tpc_test_device)
  printf '{"folder": %s}' "$(quoted "$build")"
  # Programs that were built elsewhere are taken as they are.
  if [[ ! -e $build/CMakeCache.txt ]]; then
    ! has_programs || return 0
    limited cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release >"$tmp/build" 2>&1
  fi
  limited cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" >>"$tmp/build" 2>&1
  code=$?
  ((code == 0)) || tail -n 20 "$tmp/build" >&2
  return $code
}
part "build" 400 build_programs
has_programs || { echo "run.sh: the programs could not be built" >&2; exit 1; }

# The module knows best whether there is a GPU that it can use.
part_deadline=$((SECONDS + 60))
plan probe "${tiny_gpt[0]}" "${tiny_gpt[@]:1}" || exit 1
probe=$(train probe probe --steps 1 --device cuda 2>&1) || {
  case $probe in
    *"NVIDIA driver"* | *"no GPU is visible"* | *"CUDA module is not installed"*) skip "${probe#tprun: error: }" ;;
  esac
}

part "machine" 20 describe_machine
part "tests on the device" 150 device_tests
part "small GPT, f32, cpu" 60 like_cpu small "${tiny_gpt[0]}" "$small_steps" 1e-3 "${tiny_gpt[@]:1}"
part "small GPT, bf16, cpu" 60 like_cpu small_bf16 "${tiny_gpt[0]}" "$small_steps" 2e-2 "${tiny_gpt[@]:1}" --precision bf16
part "GPT-2 124M, f32, cpu" 90 like_cpu gpt2_f32 "${tiny_gpt2[0]}" "$gpt2_steps" 1e-3 "${tiny_gpt2[@]:1}"
part "tp 2 on one GPU" 60 two_ranks_on_one_gpu
part "GPT-2 124M, bf16, speed" 90 gpt2_speed
part "Llama 8B layers, bf16, speed" 90 llama_speed
part "profile of GPT-2 124M" 60 profile_of gpt2
part "profile of Llama 8B layers" 60 profile_of llama

{
  printf '{"format": "tpc-device-run", "version": 1, "seconds": %d, "parts": [\n' "$SECONDS"
  for ((i = 0; i < ${#parts[@]}; ++i)); do
    printf '%s%s\n' "${parts[i]}" "$( ((i + 1 < ${#parts[@]})) && echo ,)"
  done
  printf ']}\n'
} >"$json"
echo "results: $json, $failures part(s) not done" >&2
((failures == 0))
