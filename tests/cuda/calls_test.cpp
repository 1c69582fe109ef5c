// The calls that a plan is said to be are those that its ranks make on the fake device, one for one and in that order.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/lowering/device_calls.h"
#include "runtime/data.h"
#include "tests/cuda/training_devices.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/support/program.h"

namespace tpc::testing {
namespace {

const std::map<std::string, int64_t> kSizes = {{"batch", 2},    {"seq", 8},  {"hidden", 32}, {"heads", 4},
                                               {"head_dim", 8}, {"ffn", 64}, {"vocab", 40}};

/// Numbers for memories and events, in the order in which they are met: the fake's and those of the list are others.
class Names {
 public:
  int number_of(const std::string& thing) { return numbers_.try_emplace(thing, numbers_.size()).first->second; }

 private:
  std::map<std::string, int> numbers_;
};

/// As calls of the same kind, on the same stream, of the same sizes and addresses read on both sides.
std::string line(int64_t stream, const std::string& what, uint64_t bytes, const std::vector<std::string>& places) {
  std::string text = fmt::format("stream {} {} {} bytes", stream, what, bytes);
  for (const std::string& place : places) text += " " + place;
  return text;
}

std::vector<std::string> made_lines(const std::vector<fake_cuda::Call>& calls) {
  Names events;
  Names memories;
  std::vector<std::string> lines;
  for (const fake_cuda::Call& call : calls) {
    std::string what = call.name;
    if (call.name == "cudaEventRecord" || call.name == "cudaStreamWaitEvent") {
      what += fmt::format(" {}", events.number_of(call.arguments));
    } else if (call.name != "cudaMemsetAsync" && !call.arguments.empty()) {
      what += " " + call.arguments;
    }
    std::vector<std::string> places;
    for (const fake_cuda::Place& place : call.places) {
      bool is_device = place.device >= 0 && place.allocation > 0;
      std::string memory = fmt::format("{}", place.allocation);
      places.push_back(is_device ? fmt::format("memory {}+{}", memories.number_of(memory), place.offset) : "host");
    }
    lines.push_back(line(call.stream, what, call.bytes, places));
  }
  return lines;
}

std::string epilogue_of(MatmulEpilogue epilogue) {
  const std::map<MatmulEpilogue, std::string> names = {{MatmulEpilogue::kNone, ""},
                                                       {MatmulEpilogue::kBias, " BIAS"},
                                                       {MatmulEpilogue::kBiasGelu, " GELU_BIAS"},
                                                       {MatmulEpilogue::kBiasGeluAux, " GELU_AUX_BIAS"},
                                                       {MatmulEpilogue::kGelu, " GELU"},
                                                       {MatmulEpilogue::kGeluAux, " GELU_AUX"},
                                                       {MatmulEpilogue::kGeluGrad, " DGELU"},
                                                       {MatmulEpilogue::kGeluGradBiasGrad, " DGELU_BGRAD"}};
  return names.at(epilogue);
}

std::string product_of(const Matmul& matmul) {
  std::string text = fmt::format("{}x{}x{} {}", matmul.m, matmul.n, matmul.k, to_string(matmul.a.dtype));
  if (matmul.d.dtype != matmul.a.dtype) text += fmt::format(" to {}", to_string(matmul.d.dtype));
  text += fmt::format(" {}{}", matmul.a.is_transposed ? 'T' : 'N', matmul.b.is_transposed ? 'T' : 'N');
  text += epilogue_of(matmul.epilogue);
  return matmul.batch > 1 ? text + fmt::format(", {} at a time", matmul.batch) : text;
}

uint64_t product_bytes(const Matmul& matmul) {
  int64_t bytes = 0;
  for (const BlasMatrix* matrix : {&matmul.a, &matmul.b}) {
    int64_t batches = matmul.batch > 1 ? (matmul.batch - 1) * matrix->batch_stride : 0;
    bytes += (batches + (matrix->columns - 1) * matrix->ld + matrix->rows) * byte_size(matrix->dtype);
  }
  return static_cast<uint64_t>(bytes);
}

std::string nccl_of(const NcclCall& nccl) {
  std::string text = fmt::format("of {} {}", nccl.count, to_string(nccl.dtype));
  bool reduces = nccl.kind == CollectiveCallKind::kAllReduce || nccl.kind == CollectiveCallKind::kReduceScatter;
  if (reduces) text += fmt::format(" ({})", nccl.reduce == ReduceOp::kMax ? "max" : "sum");
  if (nccl.peer >= 0) {
    auto peer = std::ranges::find(nccl.ranks, nccl.peer) - nccl.ranks.begin();
    text += fmt::format(" peer {}", peer);
  }
  return text;
}

class ToldLines {
 public:
  std::vector<std::string> of(const DeviceCalls& calls) {
    for (const DeviceUnit& unit : calls.units) {
      for (const DeviceCall& call : unit.calls) add(call);
    }
    return std::move(lines_);
  }

 private:
  void add(const DeviceCall& call) {
    int64_t stream = call.queue == DeviceQueueKind::kCompute ? 1 : 2;
    auto place = [&](const CallTensor& tensor) {
      if (tensor.place == CallPlace::kHost) return std::string("host");
      // Each queue has its own working memory.
      std::string memory(to_string(tensor.place));
      if (tensor.place == CallPlace::kWorkspace) memory += fmt::format(" {}", stream);
      return fmt::format("memory {}+{}", memories_.number_of(memory), tensor.offset);
    };
    switch (call.kind) {
      case DeviceCallKind::kRecord:
      case DeviceCallKind::kWait:
        lines_.push_back(
            line(stream, fmt::format("{} {}", call.name, events_.number_of(std::to_string(call.event))), 0, {}));
        break;
      case DeviceCallKind::kKernel:
        for (int i = 0; i < call.launches; ++i) lines_.push_back(line(stream, "kernel", 0, {}));
        break;
      case DeviceCallKind::kMatmul: {
        std::vector<std::string> places = {place(call.reads[0]), place(call.reads[1])};
        places.insert(places.end(), 2, place(call.writes[0]));
        lines_.push_back(line(stream, call.name + " " + product_of(*call.matmul), product_bytes(*call.matmul), places));
        break;
      }
      case DeviceCallKind::kCopy:
        lines_.push_back(
            line(stream, call.name, static_cast<uint64_t>(call.bytes), {place(call.writes[0]), place(call.reads[0])}));
        break;
      case DeviceCallKind::kFill:
        lines_.push_back(line(stream, call.name, static_cast<uint64_t>(call.bytes), {place(call.writes[0])}));
        break;
      case DeviceCallKind::kCollective: {
        // The fake logs what moves data.
        if (call.nccl->count == 0) break;
        std::string from = call.reads.empty() ? "host" : place(call.reads[0]);
        std::string to = call.writes.empty() ? "host" : place(call.writes[0]);
        lines_.push_back(line(stream, call.name + " " + nccl_of(*call.nccl),
                              static_cast<uint64_t>(call.nccl->count * byte_size(call.nccl->dtype)), {from, to}));
        break;
      }
    }
  }

  Names events_;
  Names memories_;
  std::vector<std::string> lines_;
};

void check_calls(const std::string& model, const std::map<std::string, int64_t>& sizes, const MeshCase& mesh) {
  CAPTURE(mesh.name);
  Plan plan = compile_model(model, sizes, mesh).plan;
  int64_t world = plan.mesh.world_size();
  if (!has_devices(world)) return;
  fake_cuda::reset();
  fake_cuda::keep_log();
  Trainer trainer(plan, training_devices(world, [](DeviceSettings& settings) { settings.use_graphs = false; }),
                  {.threads_per_rank = 1});
  std::unique_ptr<DataSource> data = fixed_data(plan, 5);
  trainer.train_step(data->batch(0));
  trainer.wait();
  auto calls_of = [&](int64_t rank) {
    std::vector<fake_cuda::Call> calls = fake_cuda::log();
    std::erase_if(calls, [&](const fake_cuda::Call& call) { return call.rank != rank; });
    return calls;
  };
  std::vector<size_t> before;
  for (int64_t rank = 0; rank < world; ++rank) before.push_back(calls_of(rank).size());
  trainer.train_step(data->batch(1));
  trainer.wait();
  for (int64_t rank = 0; rank < world; ++rank) {
    CAPTURE(rank);
    std::vector<fake_cuda::Call> calls = calls_of(rank);
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before[static_cast<size_t>(rank)]));
    std::vector<std::string> made = made_lines(calls);
    std::vector<std::string> told = ToldLines().of(device_calls(plan, rank_plan(plan, rank)));
    auto [at_made, at_told] = std::ranges::mismatch(made, told);
    CHECK_MESSAGE(at_made == made.end(), "call ", at_made - made.begin(), " is made and not told: ", *at_made);
    CHECK_MESSAGE(at_told == told.end(), "call ", at_told - told.begin(), " is told and not made: ", *at_told);
  }
}

MeshCase mesh_case(const std::string& mesh) { return {mesh, *parse_mesh(mesh), false}; }

TEST_CASE("the calls that are told of one rank are those that it makes") {
  check_calls("small_gpt", kSizes, mesh_case("tp=1"));
}

TEST_CASE("the calls that are told of ranks are those that they make: even and uneven parts") {
  for (const char* mesh : {"tp=2", "tp=3", "dp=2,tp=2"}) check_calls("small_gpt", kSizes, mesh_case(mesh));
}

TEST_CASE("the calls that are told of sequence-parallel ranks are those that they make") {
  for (const char* mesh : {"tp=2", "tp=3"}) {
    MeshCase sequence = mesh_case(mesh);
    sequence.sequence_parallel = true;
    check_calls("small_gpt", kSizes, sequence);
  }
}

TEST_CASE("the calls that are told of ranks that share weights are those that they make") {
  for (int stage : {1, 3}) {
    MeshCase sharing = mesh_case("dp=2");
    sharing.zero_stage = stage;
    check_calls("small_gpt", kSizes, sharing);
  }
}

TEST_CASE("the calls that are told of bf16 ranks are those that they make") {
  MeshCase bf16 = mesh_case("tp=2");
  bf16.precision = kBF16;
  check_calls("small_gpt", kSizes, bf16);
}

}  // namespace
}  // namespace tpc::testing
