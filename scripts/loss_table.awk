# Prints the losses of several runs side by side, and how far they are apart.
# usage: awk -f loss_table.awk every=20 tp=1 tp1.jsonl tp=2 tp2.jsonl ...
# Each file holds one JSON object a line with "step" and "loss". Shown are each every-th step and the last one.

function number_of(key,   text) {
  if (!match($0, "\"" key "\"[ \t]*:[ \t]*[-+0-9.eEinfaINFA]+")) {
    printf "%s:%d: no \"%s\" in this line\n", FILENAME, FNR, key > "/dev/stderr"
    failed = 1
    exit 1
  }
  text = substr($0, RSTART, RLENGTH)
  sub(/^[^:]*:[ \t]*/, "", text)
  return text
}

FNR == 1 { labels[++runs] = "tp " tp }

{
  step = number_of("step")
  loss[runs, step] = number_of("loss")
  if (runs == 1) {
    steps[++num_steps] = step
  }
}

END {
  if (failed) exit 1
  printf "%6s", "step"
  for (run = 1; run <= runs; ++run) printf "  %10s", labels[run]
  printf "  %s\n", "largest difference"
  for (row = 1; row <= num_steps; ++row) {
    step = steps[row]
    low = high = loss[1, step]
    for (run = 2; run <= runs; ++run) {
      if (!((run, step) in loss)) {
        printf "step %s of %s is missing\n", step, labels[run] > "/dev/stderr"
        exit 1
      }
      value = loss[run, step]
      if (value + 0 < low + 0) low = value
      if (value + 0 > high + 0) high = value
    }
    apart = high - low
    if (apart > largest) largest = apart
    if ((row - 1) % every == 0 || row == num_steps) {
      printf "%6d", step
      for (run = 1; run <= runs; ++run) printf "  %10.6f", loss[run, step]
      printf "  %18.2e\n", apart
    }
  }
  printf "largest difference of all %d steps: %.2e\n", num_steps, largest
}
