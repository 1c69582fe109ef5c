#include "compiler/shard_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/core/diagnostic.h"
#include "compiler/core/text_parts.h"
#include "passes/registry.h"

namespace tpc {
namespace {

const std::string kCommand = "tpc shard";

constexpr const char* kShardExamples = R"(Examples:
  tpc shard models/small_gpt.json --tp 2                      how the layers are split, and what that costs
  tpc shard models/small_gpt.json --tp 2 -o plan.json         write the plan; run it with: tprun plan.json
  tpc shard models/tiny_gpt.json --mesh dp=2,tp=4 --batch 16  two mesh axes, outermost first; another batch
  tpc shard models/tiny_gpt.json --tp 4 --rank 3              what one rank does
  tpc shard models/mid_gpt.json --tp 8 --strategy search      the plan that moves least, proved
  tpc shard models/mid_gpt.json --mesh dp=4,tp=2 --memory 200MB
                                                              the cheapest plan that fits
  tpc shard models/mid_gpt.json --tp 8 --compare              megatron, sequence-parallel and search side by side
  tpc shard models/mid_gpt.json --tp 8 --no-split seq,batch --sub-axes 2x4
  tpc shard models/tiny_gpt.json --tp 2 --stop-after assign-shardings
)";

const std::vector<std::string> kAxes{"dp", "tp"};
constexpr int64_t kMaxWorld = int64_t{1} << 24;

int64_t whole_number(const std::string& flag, const std::string& text, int64_t least) {
  std::optional<int64_t> value = parse_number<int64_t>(text);
  if (!value || *value < least) {
    throw UsageError(kCommand, fmt::format("{} wants a whole number, at least {}; found \"{}\"", flag, least, text));
  }
  return *value;
}

std::string one_of(const std::string& flag, const std::string& found, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), found) != known.end()) return found;
  std::string nearest = nearest_word(found, known);
  std::string hint = nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
  throw UsageError(kCommand, fmt::format("{} does not know \"{}\"{} Known: {}", flag, found, hint.empty() ? "." : hint,
                                         fmt::join(known, ", ")));
}

double number(const std::string& flag, const std::string& text) {
  std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || *value < 0) {
    throw UsageError(kCommand, fmt::format("{} wants a number that is not negative; found \"{}\"", flag, text));
  }
  return *value;
}

/// "80GiB", "512MB", "1000000".
int64_t bytes(const std::string& flag, const std::string& text) {
  static const std::vector<std::pair<std::string, double>> kUnits{{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                                                                  {"TiB", 0x1p40}, {"kB", 1e3},     {"MB", 1e6},
                                                                  {"GB", 1e9},     {"TB", 1e12},    {"B", 1}};
  std::string digits = text;
  double unit = 1;
  for (const auto& [name, in_bytes] : kUnits) {
    if (!text.ends_with(name)) continue;
    digits = text.substr(0, text.size() - name.size());
    unit = in_bytes;
    break;
  }
  double size = parse_number<double>(digits).value_or(0) * unit;
  if (!(size >= 1) || size > 0x1p60) {
    throw UsageError(kCommand,
                     fmt::format("{} wants a size like 80GiB, in B, kB, MB, GB, TB or KiB, MiB, GiB, TiB; found \"{}\"",
                                 flag, text));
  }
  return static_cast<int64_t>(size);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes()) names.emplace_back(pass.name);
  names.emplace_back(kPlanMemoryName);
  return names;
}

}  // namespace

void ShardFlags::add_to(CLI::App& app) {
  app.add_option("MODEL", raw_.model_path, "model file (JSON)")->required();
  app.add_option("--tp", tp_, "ranks of the tensor-parallel axis; the same as --mesh tp=N")->type_name("N");
  app.add_option("--mesh", mesh_, "named axes, outermost first; known: dp, tp")->type_name("dp=N,tp=N");
  app.add_option("--batch", batch_, "replaces the model's size \"batch\"")->type_name("N");
  app.add_option("--seq", seq_, "replaces the model's size \"seq\"")->type_name("N");
  app.add_option("--dim", dims_, "replaces any named size; may be repeated")
      ->type_name("NAME=N")
      ->expected(1)
      ->take_all();
  app.add_option("--precision", precision_, "replaces the model's: f32, bf16 (sums across ranks f32) or bf16/bf16")
      ->type_name("TYPE");
  raw_.strategy.clear();
  app.add_option("--strategy", raw_.strategy, "megatron: the well-known rules (default); search: least cost, proved")
      ->type_name("NAME");
  app.add_flag("--sequence-parallel", raw_.sequence_parallel,
               "megatron: split norms, dropout and residuals along the sequence");
  app.add_option("--zero", zero_, "megatron: split optimizer state and gradients (1, 2), parameters too (3) over dp")
      ->type_name("STAGE");
  add_search_flags(app);
  app.add_flag("--compare", raw_.compares, "megatron, sequence-parallel, ZeRO and search side by side");
  app.add_option("-o,--output", raw_.output_path, "write the plan to a file (- is standard output)")->type_name("PLAN");
  app.add_flag("--json", json_, "print the plan itself, as -o - does");
  app.add_option("--rank", rank_, "show the program of one rank")->type_name("R");
  app.add_option("--print-after", raw_.print_after, "print the graph after a pass, or after all; may be repeated")
      ->type_name("PASS")
      ->expected(1)
      ->take_all();
  app.add_option("--stop-after", raw_.stop_after, "stop after a pass and print the graph")->type_name("PASS");
  app.add_option("--dump-dir", raw_.dump_dir, "write the graph after every pass into a folder")->type_name("DIR");
  app.footer(kShardExamples);
}

void ShardFlags::add_search_flags(CLI::App& app) {
  app.add_option("--memory", memory_, "search: the cheapest plan that fits a rank; megatron: refuse what does not fit")
      ->type_name("80GiB");
  app.add_option("--no-split", no_split_, "search: dimensions that nothing may be split by")
      ->type_name("seq,batch")
      ->expected(1)
      ->take_all();
  app.add_option("--sub-axes", sub_axes_, "search: split tp in two or more axes (two-dimensional tensor parallelism)")
      ->type_name("2x4");
  app.add_flag("--free-axes", raw_.search.free_axes, "search: dp and tp may both split anything");
  app.add_option("--objective", objective_, "search: bytes received (the default), or time on the links of --cluster")
      ->type_name("bytes|time");
  app.add_option("--cluster", raw_.cluster_path, "bandwidth and latency of each axis (JSON); the report tells time too")
      ->type_name("FILE");
  app.add_option("--memory-price", memory_price_,
                 "search: bytes received (picoseconds, by time) that a byte of memory is worth")
      ->type_name("X");
  app.add_flag("--pareto", raw_.shows_front, "search: what less memory costs, instead of a plan");
}

DeviceMesh ShardFlags::mesh() const {
  if (!mesh_.empty() && !tp_.empty()) {
    throw UsageError(kCommand, fmt::format("--tp {} and --mesh {} both give the mesh; use one of them", tp_, mesh_));
  }
  if (mesh_.empty()) {
    int64_t size = tp_.empty() ? 1 : whole_number("--tp", tp_, 1);
    if (size > kMaxWorld) throw UsageError(kCommand, fmt::format("--tp {} has more than {} ranks", size, kMaxWorld));
    return DeviceMesh({{"tp", size}});
  }
  std::optional<DeviceMesh> mesh = parse_mesh(mesh_);
  if (!mesh || mesh->num_axes() == 0) {
    throw UsageError(kCommand,
                     fmt::format("--mesh \"{}\" is malformed; wanted axes with sizes of at least 1, outermost "
                                 "first, like dp=2,tp=4",
                                 mesh_));
  }
  int64_t world = 1;
  for (const MeshAxis& axis : mesh->axes()) {
    one_of("--mesh", axis.name, kAxes);
    if (axis.size > kMaxWorld / world) {
      throw UsageError(kCommand, fmt::format("--mesh {} has more than {} ranks", mesh_, kMaxWorld));
    }
    world *= axis.size;
  }
  return *mesh;
}

std::map<std::string, int64_t> ShardFlags::dims() const {
  std::map<std::string, int64_t> dims;
  auto add = [&](const std::string& name, const std::string& flag, const std::string& value) {
    int64_t size = whole_number(flag, value, 1);
    if (!dims.emplace(name, size).second) {
      throw UsageError(kCommand, fmt::format("the size \"{}\" is given twice", name));
    }
  };
  if (!batch_.empty()) add("batch", "--batch", batch_);
  if (!seq_.empty()) add("seq", "--seq", seq_);
  for (const std::string& item : dims_) {
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(kCommand, fmt::format("--dim wants name=size, like ffn=1024; found \"{}\"", item));
    }
    add(item.substr(0, equals), "--dim " + item.substr(0, equals), item.substr(equals + 1));
  }
  return dims;
}

/// Flags that only a search understands ask for one.
void ShardFlags::read_search(ShardCommand& command) const {
  std::vector<std::string> given;
  if (!no_split_.empty()) {
    std::vector<std::string>& names = command.search.no_split;
    for (const std::string& list : no_split_) {
      std::vector<std::string> parts = split(list, ',');
      if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
        throw UsageError(
            kCommand,
            fmt::format("--no-split wants names with commas between them, like seq,batch; found \"{}\"", list));
      }
      names.insert(names.end(), parts.begin(), parts.end());
    }
    given.emplace_back("--no-split");
  }
  if (!sub_axes_.empty()) {
    int64_t product = 1;
    for (const std::string& size : split(sub_axes_, 'x')) {
      command.search.sub_axes.push_back(whole_number("--sub-axes", size, 2));
      // Beyond any mesh already: the product must not wrap around.
      if (command.search.sub_axes.back() > kMaxWorld || product > kMaxWorld) {
        throw UsageError(kCommand, fmt::format("--sub-axes {} has more than {} ranks", sub_axes_, kMaxWorld));
      }
      product *= command.search.sub_axes.back();
    }
    int64_t tp = 1;
    for (const MeshAxis& axis : command.mesh.axes()) tp = axis.name == "tp" ? axis.size : tp;
    if (product != tp) {
      throw UsageError(kCommand, fmt::format("--sub-axes {} has {} ranks, tp has {}{}", sub_axes_, product, tp,
                                             tp == 1 ? fmt::format("; add --tp {}", product) : ""));
    }
    given.emplace_back("--sub-axes");
  }
  if (command.search.free_axes) given.emplace_back("--free-axes");
  one_of("--objective", objective_, {"bytes", "time"});
  command.by_time = objective_ == "time";
  if (command.by_time) {
    given.emplace_back("--objective");
    if (command.cluster_path.empty()) {
      throw UsageError(kCommand, "--objective time needs the links of the mesh: --cluster FILE");
    }
  }
  if (!memory_price_.empty()) {
    command.search.memory_price = number("--memory-price", memory_price_);
    if (command.search.memory_price > 1e6) {
      throw UsageError(kCommand, fmt::format("--memory-price {} is above 1000000", memory_price_));
    }
    given.emplace_back("--memory-price");
  }
  if (command.shows_front) given.emplace_back("--pareto");
  if (!given.empty() && command.strategy == "megatron") {
    throw UsageError(kCommand, fmt::format("{} {} to strategy search; strategy megatron follows fixed rules",
                                           fmt::join(given, ", "), given.size() == 1 ? "is a wish" : "are wishes"));
  }
  if (!memory_.empty()) command.memory_bytes = bytes("--memory", memory_);
  const char* mend = command.strategy.empty() && given.empty() ? "; --strategy megatron keeps to it" : "";
  if (command.strategy.empty()) command.strategy = given.empty() && memory_.empty() ? "megatron" : "search";
  if (command.strategy == "search" && (command.sequence_parallel || command.zero_stage > 0)) {
    throw UsageError(kCommand, fmt::format("{} is a wish to strategy megatron; the search takes it where it pays{}",
                                           command.zero_stage > 0 ? "--zero" : "--sequence-parallel", mend));
  }
}

void ShardFlags::check_together(const ShardCommand& command) {
  if (command.rank && !command.output_path.empty()) {
    throw UsageError(kCommand,
                     "--rank shows one rank's program and is no part of a plan file; use it without -o and --json");
  }
  if (!command.stop_after.empty() && (command.rank || !command.output_path.empty())) {
    throw UsageError(kCommand, "--stop-after ends before there is a plan; use it without -o, --json and --rank");
  }
  if (command.memory_bytes > 0 && !command.stop_after.empty()) {
    throw UsageError(kCommand, "--memory needs a whole plan; use it without --stop-after");
  }
  bool has_data_axis = false;
  for (const MeshAxis& axis : command.mesh.axes()) has_data_axis = has_data_axis || axis.name == "dp";
  if (command.zero_stage > 0 && !has_data_axis) {
    throw UsageError(kCommand,
                     fmt::format("--zero {} splits over a dp axis, and the mesh has none; add one: --mesh dp=2,...",
                                 command.zero_stage));
  }
  if (command.compares || command.shows_front) {
    if (command.compares && command.shows_front) {
      throw UsageError(kCommand, "--compare and --pareto print two tables; use one of them");
    }
    if (command.memory_bytes > 0) {
      throw UsageError(kCommand, fmt::format("{} tells what plans need; use it without --memory",
                                             command.compares ? "--compare" : "--pareto"));
    }
    const char* flag = command.compares ? "--compare" : "--pareto";
    if (command.rank || !command.output_path.empty() || !command.stop_after.empty() || !command.print_after.empty() ||
        !command.dump_dir.empty()) {
      throw UsageError(kCommand, fmt::format("{} prints a table of plans; use it without -o, --json, --rank, "
                                             "--stop-after, --print-after and --dump-dir",
                                             flag));
    }
  }
}

ShardCommand ShardFlags::command() const {
  ShardCommand command = raw_;
  command.mesh = mesh();
  command.dims = dims();
  if (!precision_.empty()) {
    one_of("--precision", precision_, {"f32", "bf16", "bf16/bf16"});
    command.precision = parse_precision(precision_);
  }
  if (!command.strategy.empty()) one_of("--strategy", command.strategy, strategy_names());
  if (!zero_.empty()) {
    command.zero_stage = static_cast<int>(whole_number("--zero", zero_, 0));
    if (command.zero_stage > 3) throw UsageError(kCommand, fmt::format("--zero {}: stages are 0 to 3", zero_));
  }
  read_search(command);
  std::vector<std::string> passes = pass_names();
  if (!command.stop_after.empty()) one_of("--stop-after", command.stop_after, passes);
  passes.emplace_back("all");
  for (const std::string& pass : command.print_after) one_of("--print-after", pass, passes);
  if (!rank_.empty()) {
    command.rank = whole_number("--rank", rank_, 0);
    int64_t world = command.mesh.world_size();
    if (*command.rank >= world) {
      std::string range = world == 1 ? "the only rank is 0" : fmt::format("ranks are 0 to {}", world - 1);
      throw UsageError(kCommand, fmt::format("--rank {}: {} of {}", *command.rank, range, to_string(command.mesh)));
    }
  }
  if (json_) {
    if (!command.output_path.empty())
      throw UsageError(kCommand, "--json prints the plan, -o writes it to a file; use one of them");
    command.output_path = "-";
  }
  check_together(command);
  return command;
}

}  // namespace tpc
