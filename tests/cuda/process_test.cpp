// tprun on the fake device: one process a rank, as users start it, and every way in which a device can be missing.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/shell.h"

namespace tpc::testing {
namespace {

constexpr int kDeviceError = 69;

/// tprun with the fake device as its module, on a plan of a small model.
class FakeMachine {
 public:
  explicit FakeMachine(const std::string& shard_options) : scratch_("fake_machine") {
    shell(
        "tpc shard models/small_gpt.json --batch 2 --seq 8 --dim hidden=32 --dim heads=4 --dim head_dim=8 "
        "--dim ffn=64 --dim vocab=40 " +
        shard_options + " -o $TMP/plan.json");
  }

  Ran shell(const std::string& command) {
    std::string module = std::string(TPC_BINARY_DIR) + "/tests/tprun_fake_cuda.so";
    return run_in_shell("export TPC_CUDA_MODULE=" + module + "; " + command, TPC_SOURCE_DIR, scratch_.path());
  }
  /// Two ranks, each a command of its own; how each ended.
  Ran by_hand(const std::string& environment, const std::string& options) {
    return shell(
        "PORT=$((20000 + RANDOM % 20000)); export FAKE_CUDA_LEAKS=0; run() { " + environment +
        " tprun $TMP/plan.json --device cuda --world-size 2 --meeting 127.0.0.1:$PORT --rank $1 --local-rank $1 " +
        options + "; echo rank $1: $?; }; run 0 & run 1; wait");
  }
  /// `environment` before the command.
  Ran train(const std::string& environment, const std::string& options = "--steps 3") {
    return shell(environment + " tprun $TMP/plan.json --device cuda " + options);
  }

 private:
  ScratchFolder scratch_;
};

bool says(const Ran& ran, const std::string& part) { return ran.output.find(part) != std::string::npos; }

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The losses of a run's metrics, as they are printed.
std::string losses(FakeMachine& machine, const std::string& file) {
  return machine.shell("grep -o '\"loss\":[0-9.]*' $TMP/" + file + " | cut -c1-14").output;
}

TEST_CASE("tprun starts a process for every rank and trains as on the cpu") {
  for (const char* mesh : {"--tp 1", "--tp 2", "--tp 3 --sequence-parallel", "--mesh dp=2,tp=2"}) {
    CAPTURE(mesh);
    FakeMachine machine(mesh);
    Ran cpu = machine.shell("tprun $TMP/plan.json --steps 3 --metrics $TMP/cpu.jsonl");
    Ran cuda = machine.train("", "--steps 3 --metrics $TMP/cuda.jsonl");
    CAPTURE(cuda.output);
    CHECK(cpu.exit_code == 0);
    CHECK(cuda.exit_code == 0);
    CHECK(losses(machine, "cuda.jsonl") == losses(machine, "cpu.jsonl"));
    // The same table of bytes.
    auto table = [](const std::string& output) { return output.substr(output.find("bytes received")); };
    if (std::string(mesh) != "--tp 1") CHECK(table(cuda.output) == table(cpu.output));
    CHECK(count_of(cuda.output, "loss") == count_of(cpu.output, "loss"));
  }
}

TEST_CASE("a run tells what it holds of the fullest device, and where its time went") {
  for (const char* mesh : {"--tp 1", "--tp 2"}) {
    CAPTURE(mesh);
    FakeMachine machine(mesh);
    Ran ran = machine.train("", "--steps 3 --summary $TMP/run.json --profile $TMP/profile.json");
    CAPTURE(ran.output);
    CHECK(ran.exit_code == 0);
    CHECK(count_of(ran.output, "device memory: plan ") == 1);
    CHECK(count_of(ran.output, "time of every unit, alone on the device: rank 0, median of 2 steps") == 1);
    CHECK(machine
              .shell("grep -c "
                     "'\"device_memory\":{\"rank\":[0-9]*,\"arena\":[0-9]*,\"plan\":[0-9]*,\"held\":[0-9]*,\"used\":[0-"
                     "9]*}' "
                     "$TMP/run.json")
              .output == "1\n");
    // Every step of the optimizer goes out in one launch.
    CHECK(machine.shell("grep -c '\"ops\":\"adamw\\*' $TMP/profile.json").output == "1\n");
  }
}

TEST_CASE("what is missing on a machine is told once, in a sentence, with exit code 69") {
  FakeMachine machine("--tp 2");
  struct Missing {
    const char* environment;
    const char* message;
  };
  for (const Missing& missing : {
           Missing{"TPC_CUDA_MODULE=/nowhere/module.so", "the CUDA module is not installed"},
           Missing{"FAKE_CUDA_DRIVER=none", "no NVIDIA driver"},
           Missing{"FAKE_CUDA_DRIVER=old", "the NVIDIA driver is for CUDA"},
           Missing{"FAKE_CUDA_DEVICES=0", "no GPU is visible"},
           Missing{"FAKE_CUDA_DEVICES=1", "rank 1 of this machine has no GPU: 1 is visible"},
           Missing{"FAKE_CUDA_MEMORY=100000", "out of device memory: "},
       }) {
    CAPTURE(missing.environment);
    Ran ran = machine.train(missing.environment);
    CAPTURE(ran.output);
    CHECK(ran.exit_code == kDeviceError);
    CHECK(says(ran, missing.message));
    CHECK(count_of(ran.output, "error: ") == 1);
    CHECK(count_of(ran.output, "\n") == 1);
  }
}

TEST_CASE("layers that are not trained do not let a result lie over what makes it") {
  FakeMachine machine("--tp 1");
  // Nothing keeps the operands of fc1's product for a weight's gradient, so its gelu may take their place.
  Ran ran = machine.shell(
      "sed -e 's/\"features\": 64, \"ffn\": 256, \"out\": 32/\"features\": 64, \"ffn\": 64, \"out\": 64/' -e "
      "'s/{\"name\": \"fc2\", \"op\": \"linear\", \"input\": \"act\"/{\"name\": \"mid\", \"op\": \"linear\", "
      "\"input\": \"act\", \"out\": [\"ffn\"], \"bias\": true, \"trainable\": false}, {\"name\": \"act2\", \"op\": "
      "\"gelu\", \"input\": \"mid\"}, {\"name\": \"fc2\", \"op\": \"linear\", \"input\": \"act2\"/' models/mlp.json > "
      "$TMP/frozen.json; sed -i 's/\"op\": \"gelu\"/\"op\": \"gelu\", \"approximate\": \"tanh\"/' $TMP/frozen.json; "
      "tpc shard "
      "$TMP/frozen.json --tp 1 -o $TMP/frozen_plan.json >/dev/null && tprun $TMP/frozen_plan.json --steps 3 --metrics "
      "$TMP/cpu.jsonl && tprun $TMP/frozen_plan.json --steps 3 --device cuda --metrics $TMP/cuda.jsonl");
  CAPTURE(ran.output);
  CHECK(ran.exit_code == 0);
  CHECK(losses(machine, "cuda.jsonl") == losses(machine, "cpu.jsonl"));
}

TEST_CASE("several ranks share a GPU when asked to") {
  FakeMachine machine("--tp 2");
  Ran ran = machine.train("FAKE_CUDA_DEVICES=1", "--steps 2 --allow-shared-gpu");
  CAPTURE(ran.output);
  CHECK(ran.exit_code == 0);
}

TEST_CASE("ranks with other versions of NCCL, plans or seeds do not meet") {
  FakeMachine machine("--tp 2");
  auto pair = [&](const std::string& zero, const std::string& one) {
    std::string common = "TPC_WORLD_SIZE=2 TPC_MEETING=127.0.0.1:$PORT tprun $TMP/plan.json --device cuda --steps 2 ";
    return machine.shell("PORT=$((20000 + RANDOM % 20000)); export FAKE_CUDA_LEAKS=0; (TPC_RANK=1 TPC_LOCAL_RANK=1 " +
                         one + " " + common + (one.starts_with("SEED") ? "--seed 3" : "") +
                         "; echo rank 1: $?) & TPC_RANK=0 TPC_LOCAL_RANK=0 " + zero + " " + common +
                         "; echo rank 0: $?; wait");
  };
  Ran same = pair("", "");
  CAPTURE(same.output);
  CHECK(says(same, "rank 0: 0"));
  CHECK(says(same, "rank 1: 0"));
  Ran versions = pair("FAKE_NCCL_VERSION=22809", "FAKE_NCCL_VERSION=22703");
  CAPTURE(versions.output);
  CHECK(says(versions, "2.27.3"));
  CHECK(says(versions, "rank 0: 69"));
  CHECK(says(versions, "rank 1: 69"));
  Ran seeds = pair("", "SEED=other");
  CAPTURE(seeds.output);
  CHECK(says(seeds, "rank 0: 69"));
  CHECK(says(seeds, "rank 1: 69"));
}

TEST_CASE("ranks that read other data do not train together") {
  FakeMachine machine("--tp 2");
  Ran ran = machine.shell(
      "mkdir $TMP/a $TMP/b; head -c 400 /dev/zero > $TMP/a/text.bin; head -c 400 /dev/zero | tr '\\0' '\\1' | "
      "sed 's/\\x01\\x01/\\x01\\x00/g' > $TMP/b/text.bin; plan=$TMP/plan.json; "
      "PORT=$((20000 + RANDOM % 20000)); export FAKE_CUDA_LEAKS=0 TPC_WORLD_SIZE=2 TPC_MEETING=127.0.0.1:$PORT; "
      "(cd $TMP/b && TPC_RANK=1 TPC_LOCAL_RANK=1 tprun $plan --device cuda --data text.bin; "
      "echo rank 1: $?) & (cd $TMP/a && TPC_RANK=0 TPC_LOCAL_RANK=0 tprun $plan --device cuda --data text.bin; echo "
      "rank "
      "0: $?); "
      "wait");
  CAPTURE(ran.output);
  CHECK(says(ran, "rank 1 reads another batch than rank 0"));
  CHECK(!says(ran, "rank 0: 0"));
  CHECK(!says(ran, "rank 1: 0"));
}

TEST_CASE("a rank that is killed ends the run on all ranks within seconds, and is named") {
  FakeMachine machine("--tp 4");
  Ran ran = machine.shell(
      "tprun $TMP/plan.json --device cuda --steps 1000000 --quiet & pid=$!; sleep 2; "
      "kill -9 $(pgrep -P $pid | sed -n 3p); start=$(date +%s); wait $pid; code=$?; "
      "echo code $code after $(($(date +%s) - start)) s; pgrep -P $pid | wc -l");
  CAPTURE(ran.output);
  CHECK(says(ran, "was killed by signal 9"));
  CHECK(says(ran, "code 69 after"));
  CHECK(ran.output.ends_with("\n0\n"));
  for (int seconds = 10; seconds < 100; ++seconds) CHECK(!says(ran, "after " + std::to_string(seconds) + " s"));
}

TEST_CASE("calls that fail end the run with one message that names rank, step, node and call") {
  FakeMachine machine("--tp 2");
  struct Failure {
    const char* fail;
    const char* message;
  };
  for (const Failure& failure : {
           Failure{"ncclAllReduce:rank1:call7:ncclSystemError", "rank 1, training step"},
           Failure{"cudaMalloc:rank0:call2:cudaErrorMemoryAllocation", "rank"},
           Failure{"cublasLtMatmul:rank1:call9:CUBLAS_STATUS_EXECUTION_FAILED", "cublasLtMatmul failed"},
           Failure{"cudaGraphInstantiate:rank0:call1:cudaErrorUnknown",
                   "rank 0, training step 1: cudaGraphInstantiate failed"},
           Failure{"cudaStreamBeginCapture:rank1", "rank 1, training step 1: cudaStreamBeginCapture failed"},
           Failure{"cudaGraphLaunch:rank1:call3", "rank 1, training step 2: cudaGraphLaunch failed"},
       }) {
    CAPTURE(failure.fail);
    Ran ran = machine.train(std::string("FAKE_CUDA_FAIL=") + failure.fail, "--steps 3 --quiet");
    CAPTURE(ran.output);
    CHECK(ran.exit_code == kDeviceError);
    CHECK(says(ran, failure.message));
    CHECK(count_of(ran.output, "error: ") == 1);
  }
}

TEST_CASE("a rank that hangs in a call ends the run on all ranks, replayed or not, started by hand or not") {
  FakeMachine machine("--tp 2");
  for (const char* fail : {"cudaGraphLaunch:rank1:call3:hang", "cublasLtMatmul:rank1:call40:hang"}) {
    CAPTURE(fail);
    Ran ran = machine.train(std::string("FAKE_CUDA_FAIL=") + fail, "--steps 6 --timeout 2 --quiet");
    CAPTURE(ran.output);
    CHECK(ran.exit_code == kDeviceError);
    CHECK(says(ran, "rank 0, training step"));
    CHECK(says(ran, "has not ended after 2.0 s: a rank does not come to it"));
    CHECK(count_of(ran.output, "error: ") == 1);
  }
  Ran by_hand = machine.by_hand("FAKE_CUDA_FAIL=cublasLtMatmul:rank1:call40:hang", "--steps 6 --timeout 2 --quiet");
  CAPTURE(by_hand.output);
  CHECK(says(by_hand, "rank 0: 69"));
  CHECK(says(by_hand, "rank 1: 69"));
  CHECK(count_of(by_hand.output, "error: ") == 1);
}

TEST_CASE("without a starter, too, a rank that dies is named") {
  FakeMachine machine("--tp 3");
  for (const char* options : {"--no-graph", ""}) {
    Ran ran = machine.shell(
        "PORT=$((20000 + RANDOM % 20000)); export FAKE_CUDA_LEAKS=0; run() { tprun $TMP/plan.json --device cuda "
        "--quiet "
        "--steps 1000000 --world-size 3 --meeting 127.0.0.1:$PORT --rank $1 --local-rank $1 " +
        std::string(options) +
        " & eval pid$1=$!; }; run 0; run 1; run 2; sleep 2; kill -9 $pid1; wait $pid0; echo rank 0: $?; wait $pid2; "
        "echo rank 2: $?");
    CAPTURE(ran.output);
    CHECK(says(ran, "rank 1 has died (its connection to rank 0 broke)"));
    CHECK(count_of(ran.output, "error: ") == 1);
    CHECK(says(ran, "rank 0: 69"));
    CHECK(says(ran, "rank 2: 69"));
  }
}

TEST_CASE("a launcher may show each process its own GPU alone") {
  FakeMachine machine("--tp 2");
  auto pair = [&](const std::string& second) {
    return machine.shell(
        "PORT=$((20000 + RANDOM % 20000)); export FAKE_CUDA_LEAKS=0; run() { tprun $TMP/plan.json --device cuda "
        "--quiet "
        "--steps 2 --world-size 2 --meeting 127.0.0.1:$PORT --rank $1 --local-rank $1; echo rank $1: $?; }; "
        "CUDA_VISIBLE_DEVICES=0 run 0 & CUDA_VISIBLE_DEVICES=" +
        second + " run 1; wait");
  };
  Ran own = pair("1");
  CAPTURE(own.output);
  CHECK(says(own, "rank 0: 0"));
  CHECK(says(own, "rank 1: 0"));
  Ran same = pair("0");
  CAPTURE(same.output);
  CHECK(says(same, "Duplicate GPU detected"));
  CHECK(says(same, "--allow-shared-gpu"));
  CHECK(says(same, "rank 1: 69"));
}

TEST_CASE("flags of a GPU's run are refused on the cpu, and ranks that the plan has not") {
  FakeMachine machine("--tp 2");
  Ran flag = machine.shell("tprun $TMP/plan.json --tune");
  CHECK(flag.exit_code == 2);
  CHECK(says(flag, "--tune is for --device cuda"));
  Ran ranks = machine.train("", "--ranks 3");
  CAPTURE(ranks.output);
  CHECK(ranks.exit_code == 1);
  CHECK(says(ranks, "the plan is for 2 ranks, --ranks says 3"));
  for (const char* flags : {"--check --fp64", "--check --nccl-windows", "--check --allow-shared-gpu"}) {
    CAPTURE(flags);
    CHECK(machine.train("", flags).exit_code == 2);
  }
  Ran launched = machine.shell("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 tprun $TMP/plan.json");
  CAPTURE(launched.output);
  CHECK(launched.exit_code == 1);
  CHECK(says(launched, "one runs all ranks on the cpu; start one, or use --device cuda"));
}

TEST_CASE("a loss that is not finite is told once by all processes together") {
  FakeMachine machine("--tp 2");
  Ran ran = machine.shell(
      "sed 's/\"lr\": 3e-4/\"lr\": 1e30/' models/small_gpt.json > $TMP/hot.json; tpc shard $TMP/hot.json --batch 2 "
      "--seq 8 "
      "--dim hidden=32 --dim heads=4 --dim head_dim=8 --dim ffn=64 --dim vocab=40 --tp 2 -o $TMP/hot_plan.json "
      ">/dev/null; "
      "tprun $TMP/hot_plan.json --device cuda --steps 50 --quiet; echo code $?; tprun $TMP/hot_plan.json --steps 50 "
      "--quiet");
  CAPTURE(ran.output);
  CHECK(says(ran, "code 1"));
  CHECK(count_of(ran.output, "is not finite; the first node") == 2);
}

TEST_CASE("the check compares every tensor on the fake device") {
  FakeMachine machine("--tp 2");
  Ran ran = machine.train("", "--check 1");
  CAPTURE(ran.output);
  CHECK(ran.exit_code == 0);
}

}  // namespace
}  // namespace tpc::testing
