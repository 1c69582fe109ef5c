// Reads plans: form only. Whether what they say is sound is for check_plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/plan/check_plan.h"
#include "compiler/plan/json_tree.h"
#include "compiler/plan/plan_json.h"

namespace tpc {
namespace {

const std::vector<std::string> kPlanMembers{"format",      "version",          "name",  "mesh",    "options", "outputs",
                                            "arena_bytes", "persistent_bytes", "model", "tensors", "steps",   "proof"};
const std::vector<std::string> kProofMembers{"objective",    "price",     "bound",  "memory",
                                             "memory_limit", "decisions", "choices"};
const std::vector<std::string> kTensorMembers{"name", "dtype",  "shape", "sharding",
                                              "role", "offset", "bytes", "attributes"};
const std::vector<std::string> kStepMembers{"op",    "operands", "results", "attributes",
                                            "phase", "layer",    "origin",  "why"};
constexpr TensorRole kRoles[] = {TensorRole::kInput,      TensorRole::kParameter, TensorRole::kState,
                                 TensorRole::kActivation, TensorRole::kGradient,  TensorRole::kOther,
                                 TensorRole::kWeight};
constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackward, Phase::kOptimizer};

/// Reading goes on after a mistake, to list several at once, but not for ever.
constexpr size_t kMaxErrors = 20;

class PlanReader {
 public:
  PlanReader(const std::string& text, const std::string& file) : file_(file), tree_(text, file) {}

  Plan run() {
    check_format();
    check_members(JsonTree::kRoot, kPlanMembers);
    Plan plan;
    plan.model_name = text_member(JsonTree::kRoot, "name");
    read_mesh(plan);
    if (int options = member(JsonTree::kRoot, "options", JsonKind::kObject); options >= 0) {
      for (int item = tree_.first_child(options); item >= 0; item = tree_.next(item)) {
        plan.options[std::string(tree_.key(item))] = text_of(item);
      }
    }
    if (int proof = tree_.find(JsonTree::kRoot, "proof"); proof >= 0) plan.proof = read_proof(proof);
    plan.arena_bytes = integer_member(JsonTree::kRoot, "arena_bytes");
    plan.persistent_bytes = integer_member(JsonTree::kRoot, "persistent_bytes");
    read_model(plan);
    if (int tensors = member(JsonTree::kRoot, "tensors", JsonKind::kArray); tensors >= 0) read_tensors(plan, tensors);
    if (int steps = member(JsonTree::kRoot, "steps", JsonKind::kArray); steps >= 0) read_steps(plan, steps);
    if (int outputs = member(JsonTree::kRoot, "outputs", JsonKind::kObject); outputs >= 0) {
      for (int item = tree_.first_child(outputs); item >= 0; item = tree_.next(item)) {
        plan.outputs[std::string(tree_.key(item))] = tensor_index(item);
      }
    }
    sink_.throw_if_errors();
    return plan;
  }

 private:
  SourceLoc loc(int node, bool at_key = false) const { return {file_, tree_.pointer(node), at_key}; }

  void error(SourceLoc place, std::string message) {
    sink_.error(std::move(place), std::move(message));
    if (sink_.diagnostics().size() >= kMaxErrors) sink_.throw_if_errors();
  }

  // What must hold before anything else makes sense; each is the only error reported.
  void check_format() {
    int root = JsonTree::kRoot;
    if (tree_.kind(root) != JsonKind::kObject) {
      throw UserError(loc(root), fmt::format("a plan is an object, this is {}", to_string(tree_.kind(root))));
    }
    int format = tree_.find(root, "format");
    if (format < 0) throw UserError(loc(root), "this is not a plan: it has no member \"format\": \"tpc-plan\"");
    std::string name = tree_.kind(format) == JsonKind::kString ? std::string(tree_.text(format)) : "";
    if (name == "tpc-model") {
      throw UserError(loc(format),
                      fmt::format("this is a model, not a plan; compile it first: tpc shard {} -o plan.json", file_));
    }
    if (name != "tpc-plan") throw UserError(loc(format), "this is not a plan: \"format\" is not \"tpc-plan\"");
    int version = tree_.find(root, "version");
    if (version < 0) throw UserError(loc(root), "the plan has no \"version\"");
    if (tree_.kind(version) != JsonKind::kInteger || tree_.integer(version) != Plan::kVersion) {
      std::string found = tree_.kind(version) == JsonKind::kInteger ? fmt::format("{}", tree_.integer(version))
                                                                    : std::string(to_string(tree_.kind(version)));
      throw UserError(loc(version),
                      fmt::format("plan version {} is not known; this program reads version {}; compile the "
                                  "model again with it",
                                  found, Plan::kVersion));
    }
  }

  void check_members(int object, const std::vector<std::string>& known) {
    for (int child = tree_.first_child(object); child >= 0; child = tree_.next(child)) {
      std::string key(tree_.key(child));
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string nearest = nearest_word(key, known);
      error(loc(child, true), nearest.empty()
                                  ? fmt::format("unknown member \"{}\"; known are {}", key, fmt::join(known, ", "))
                                  : fmt::format("unknown member \"{}\"; did you mean \"{}\"?", key, nearest));
    }
  }

  bool is_kind(int node, JsonKind wanted) {
    if (tree_.kind(node) == wanted) return true;
    error(loc(node), fmt::format("wanted {}, found {}", to_string(wanted), to_string(tree_.kind(node))));
    return false;
  }

  /// The member when it is there and of that kind, else -1 and an error.
  int member(int object, std::string_view name, JsonKind kind) {
    int child = tree_.find(object, name);
    if (child < 0) error(loc(object), fmt::format("member \"{}\" is missing", name));
    return child >= 0 && is_kind(child, kind) ? child : -1;
  }

  std::string text_of(int node) { return is_kind(node, JsonKind::kString) ? std::string(tree_.text(node)) : ""; }

  std::string text_member(int object, std::string_view name) {
    int child = member(object, name, JsonKind::kString);
    return child >= 0 ? std::string(tree_.text(child)) : "";
  }

  std::string optional_text(int object, std::string_view name) {
    int child = tree_.find(object, name);
    return child >= 0 ? text_of(child) : "";
  }

  int64_t integer_member(int object, std::string_view name) {
    int child = member(object, name, JsonKind::kInteger);
    return child >= 0 ? tree_.integer(child) : 0;
  }

  std::vector<int64_t> integers(int array) {
    std::vector<int64_t> values;
    for (int child = tree_.first_child(array); child >= 0; child = tree_.next(child)) {
      if (!is_kind(child, JsonKind::kInteger)) return values;
      values.push_back(tree_.integer(child));
    }
    return values;
  }

  std::optional<SearchProof> read_proof(int node) {
    if (tree_.kind(node) != JsonKind::kObject) {
      error(loc(node), fmt::format("a proof is an object, this is {}", to_string(tree_.kind(node))));
      return std::nullopt;
    }
    check_members(node, kProofMembers);
    SearchProof proof;
    proof.objective = text_member(node, "objective");
    proof.price = integer_member(node, "price");
    proof.bound = integer_member(node, "bound");
    proof.memory = integer_member(node, "memory");
    proof.memory_limit = integer_member(node, "memory_limit");
    proof.decisions = integer_member(node, "decisions");
    proof.choices = integer_member(node, "choices");
    return proof;
  }

  void read_mesh(Plan& plan) {
    int node = member(JsonTree::kRoot, "mesh", JsonKind::kString);
    if (node < 0) return;
    std::optional<DeviceMesh> mesh = parse_mesh(tree_.text(node));
    if (!mesh) {
      error(loc(node), fmt::format("mesh \"{}\" is malformed; wanted a form like \"[dp=2, tp=4]\"", tree_.text(node)));
      return;
    }
    plan.mesh = *mesh;
  }

  void read_model(Plan& plan) {
    int node = tree_.find(JsonTree::kRoot, "model");
    if (node < 0) {
      error(loc(JsonTree::kRoot), "member \"model\" is missing");
    } else if (tree_.kind(node) != JsonKind::kNull && is_kind(node, JsonKind::kObject)) {
      plan.model_json = tree_.dump(node);
    }
  }

  void read_tensors(Plan& plan, int array) {
    plan.tensors.reserve(static_cast<size_t>(tree_.num_children(array)));
    names_.reserve(static_cast<size_t>(tree_.num_children(array)));
    for (int node = tree_.first_child(array); node >= 0; node = tree_.next(node)) {
      plan.tensors.emplace_back();
      if (is_kind(node, JsonKind::kObject))
        read_tensor(plan.tensors.back(), node, static_cast<int>(plan.tensors.size()) - 1);
    }
  }

  void read_tensor(PlanTensor& tensor, int node, int index) {
    check_members(node, kTensorMembers);
    int name = member(node, "name", JsonKind::kString);
    if (name >= 0) {
      tensor.name = std::string(tree_.text(name));
      if (!names_.emplace(tree_.text(name), index).second) {
        error(loc(name), fmt::format("two tensors are named \"{}\"", tensor.name));
      }
    }
    if (int dtype = member(node, "dtype", JsonKind::kString); dtype >= 0) {
      std::optional<DType> known = parse_dtype(tree_.text(dtype));
      if (!known) error(loc(dtype), fmt::format("unknown dtype \"{}\"; known are f32, i32", tree_.text(dtype)));
      tensor.type.dtype = known.value_or(DType::kF32);
    }
    if (int shape = member(node, "shape", JsonKind::kArray); shape >= 0) tensor.type.shape = integers(shape);
    if (int sharding = member(node, "sharding", JsonKind::kString); sharding >= 0) read_sharding(tensor, sharding);
    if (int role = member(node, "role", JsonKind::kString); role >= 0) {
      tensor.role = enumerator<TensorRole>(role, kRoles, "role", TensorRole::kOther);
    }
    tensor.offset = integer_member(node, "offset");
    tensor.bytes = integer_member(node, "bytes");
    read_attributes(tensor.attributes, node);
  }

  void read_sharding(PlanTensor& tensor, int node) {
    std::optional<TensorSharding> sharding = parse_sharding(tree_.text(node));
    if (!sharding) {
      error(loc(node),
            fmt::format("sharding \"{}\" is malformed; wanted one placement per mesh axis, as in \"[S(0), R]\" "
                        "or \"[P(sum)]\"",
                        tree_.text(node)));
      return;
    }
    tensor.sharding = std::move(*sharding);
  }

  template <class Enum, size_t kCount>
  Enum enumerator(int node, const Enum (&all)[kCount], std::string_view what, Enum otherwise) {
    std::vector<std::string> names;
    for (Enum item : all) {
      if (to_string(item) == tree_.text(node)) return item;
      names.emplace_back(to_string(item));
    }
    error(loc(node), fmt::format("unknown {} \"{}\"; known are {}", what, tree_.text(node), fmt::join(names, ", ")));
    return otherwise;
  }

  void read_steps(Plan& plan, int array) {
    plan.steps.reserve(static_cast<size_t>(tree_.num_children(array)));
    for (int node = tree_.first_child(array); node >= 0; node = tree_.next(node)) {
      plan.steps.emplace_back();
      if (is_kind(node, JsonKind::kObject)) read_step(plan.steps.back(), node);
    }
  }

  void read_step(PlanStep& step, int node) {
    check_members(node, kStepMembers);
    if (int op = member(node, "op", JsonKind::kString); op >= 0) {
      std::string name(tree_.text(op));
      std::optional<OpKind> known = parse_op_kind(name);
      std::string nearest = known ? "" : nearest_word(name, op_names());
      if (!known) {
        error(loc(op), fmt::format("unknown op \"{}\"{}", name,
                                   nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest)));
      }
      step.op = known.value_or(OpKind::kAdd);
    }
    read_tensor_list(step.operands, node, "operands");
    read_tensor_list(step.results, node, "results");
    read_attributes(step.attributes, node);
    if (int phase = member(node, "phase", JsonKind::kString); phase >= 0) {
      step.phase = enumerator<Phase>(phase, kPhases, "phase", Phase::kForward);
    }
    step.layer = optional_text(node, "layer");
    step.origin = optional_text(node, "origin");
    step.why = optional_text(node, "why");
  }

  void read_tensor_list(std::vector<int>& tensors, int node, std::string_view name) {
    int list = member(node, name, JsonKind::kArray);
    if (list < 0) return;
    tensors.reserve(static_cast<size_t>(tree_.num_children(list)));
    for (int item = tree_.first_child(list); item >= 0; item = tree_.next(item)) tensors.push_back(tensor_index(item));
  }

  int tensor_index(int node) {
    if (!is_kind(node, JsonKind::kString)) return 0;
    auto found = names_.find(tree_.text(node));
    if (found != names_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [name, index] : names_) known.emplace_back(name);
    std::sort(known.begin(), known.end());
    std::string nearest = nearest_word(std::string(tree_.text(node)), known);
    error(loc(node), fmt::format("no tensor is named \"{}\"{}", tree_.text(node),
                                 nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest)));
    return 0;
  }

  void read_attributes(Attributes& attributes, int node) {
    int object = tree_.find(node, "attributes");
    if (object < 0 || !is_kind(object, JsonKind::kObject)) return;
    for (int item = tree_.first_child(object); item >= 0; item = tree_.next(item)) {
      std::string name(tree_.key(item));
      switch (tree_.kind(item)) {
        case JsonKind::kBool:
          attributes.set(std::move(name), tree_.boolean(item));
          break;
        case JsonKind::kInteger:
          attributes.set(std::move(name), tree_.integer(item));
          break;
        case JsonKind::kReal:
          attributes.set(std::move(name), tree_.real(item));
          break;
        case JsonKind::kString:
          attributes.set(std::move(name), std::string(tree_.text(item)));
          break;
        case JsonKind::kArray:
          attributes.set(std::move(name), integers(item));
          break;
        case JsonKind::kNull:
        case JsonKind::kObject:
          error(loc(item),
                fmt::format("attribute \"{}\" is {}; wanted a boolean, a number, a text or a list of integers", name,
                            to_string(tree_.kind(item))));
          break;
      }
    }
  }

  const std::string& file_;
  JsonTree tree_;
  DiagnosticSink sink_;
  /// Of tensors, as they stand in tree_.
  std::unordered_map<std::string_view, int> names_;
};

}  // namespace

Plan read_plan(const std::string& text, const std::string& file) {
  Plan plan = PlanReader(text, file).run();
  check_plan(plan, file);
  return plan;
}

}  // namespace tpc
