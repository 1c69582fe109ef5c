// Writes plans. One line a tensor and a step, so that two plans can be compared line by line.
#include "compiler/plan/plan_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "compiler/core/check.h"

namespace tpc {
namespace {

class PlanWriter {
 public:
  explicit PlanWriter(const Plan& plan) : plan_(plan) {}

  std::string run() {
    check_names();
    raw("{\n  \"format\": \"tpc-plan\",\n");
    put("  \"version\": {},\n", Plan::kVersion);
    raw("  \"name\": ");
    quoted(plan_.model_name);
    raw(",\n  \"mesh\": ");
    std::string mesh = to_string(plan_.mesh);
    quoted(mesh.substr(mesh.find('[')));
    proof();
    raw(",\n  \"options\": {");
    const char* separator = "";
    for (const auto& [name, value] : plan_.options) {
      raw(std::exchange(separator, ", "));
      quoted(name);
      raw(": ");
      quoted(value);
    }
    raw("},\n  \"outputs\": {");
    separator = "";
    for (const auto& [name, tensor] : plan_.outputs) {
      raw(std::exchange(separator, ", "));
      quoted(name);
      raw(": ");
      tensor_name(tensor);
    }
    put("}},\n  \"arena_bytes\": {},\n  \"persistent_bytes\": {},\n", plan_.arena_bytes, plan_.persistent_bytes);
    model();
    raw("  \"tensors\": [");
    separator = "\n";
    for (const PlanTensor& item : plan_.tensors) {
      raw(std::exchange(separator, ",\n"));
      tensor(item);
    }
    raw("\n  ],\n  \"steps\": [");
    separator = "\n";
    for (const PlanStep& item : plan_.steps) {
      raw(std::exchange(separator, ",\n"));
      step(item);
    }
    raw("\n  ]\n}\n");
    return fmt::to_string(out_);
  }

 private:
  void check_names() const {
    std::unordered_set<std::string_view> names;
    names.reserve(plan_.tensors.size());
    for (const PlanTensor& item : plan_.tensors) {
      TPC_CHECK(names.insert(item.name).second, "two tensors of the plan are named \"{}\"", item.name);
    }
  }

  void proof() {
    if (!plan_.proof) return;
    const SearchProof& proof = *plan_.proof;
    raw(",\n  \"proof\": {\"objective\": ");
    quoted(proof.objective);
    put(", \"price\": {}, \"bound\": {}, \"memory\": {}, \"memory_limit\": {}, \"decisions\": {}, \"choices\": {}}}",
        proof.price, proof.bound, proof.memory, proof.memory_limit, proof.decisions, proof.choices);
  }

  void model() {
    raw("  \"model\": ");
    std::string text = plan_.model_json.empty() ? "null" : nlohmann::ordered_json::parse(plan_.model_json).dump(2);
    for (char c : text) {
      out_.push_back(c);
      if (c == '\n') raw("  ");
    }
    raw(",\n");
  }

  void tensor(const PlanTensor& item) {
    raw("    {\"name\": ");
    quoted(item.name);
    put(", \"dtype\": \"{}\", \"shape\": {}", to_string(item.type.dtype), to_string(item.type.shape));
    put(", \"sharding\": \"{}\", \"role\": \"{}\"", to_string(item.sharding), to_string(item.role));
    put(", \"offset\": {}, \"bytes\": {}", item.offset, item.bytes);
    attributes(item.attributes);
    raw("}");
  }

  void step(const PlanStep& item) {
    put("    {{\"op\": \"{}\"", op_name(item.op));
    tensor_list("operands", item.operands);
    tensor_list("results", item.results);
    attributes(item.attributes);
    put(", \"phase\": \"{}\"", to_string(item.phase));
    optional_text("layer", item.layer);
    optional_text("origin", item.origin);
    optional_text("why", item.why);
    raw("}");
  }

  void tensor_list(const char* name, const std::vector<int>& tensors) {
    put(", \"{}\": [", name);
    const char* separator = "";
    for (int item : tensors) {
      raw(std::exchange(separator, ", "));
      tensor_name(item);
    }
    raw("]");
  }

  void tensor_name(int index) {
    TPC_CHECK(index >= 0 && static_cast<size_t>(index) < plan_.tensors.size(), "tensor {} of {}", index,
              plan_.tensors.size());
    quoted(plan_.tensors[static_cast<size_t>(index)].name);
  }

  void optional_text(const char* name, const std::string& text) {
    if (text.empty()) return;
    put(", \"{}\": ", name);
    quoted(text);
  }

  void attributes(const Attributes& items) {
    if (items.items().empty()) return;
    raw(", \"attributes\": {");
    const char* separator = "";
    for (const auto& [name, value] : items.items()) {
      raw(std::exchange(separator, ", "));
      quoted(name);
      raw(": ");
      if (const std::string* text = std::get_if<std::string>(&value)) {
        quoted(*text);
        continue;
      }
      const double* number = std::get_if<double>(&value);
      TPC_CHECK(number == nullptr || std::isfinite(*number), "attribute \"{}\" is {}", name, *number);
      raw(to_string(value));
    }
    raw("}");
  }

  void quoted(std::string_view text) {
    out_.push_back('"');
    for (char c : text) {
      unsigned char byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_.push_back('\\');
        out_.push_back(c);
      } else if (byte < 0x20) {
        put("\\u{:04x}", static_cast<unsigned>(byte));
      } else {
        out_.push_back(c);
      }
    }
    out_.push_back('"');
  }

  void raw(std::string_view text) { out_.append(text.data(), text.data() + text.size()); }

  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  const Plan& plan_;
  fmt::memory_buffer out_;
};

}  // namespace

std::string write_plan(const Plan& plan) { return PlanWriter(plan).run(); }

}  // namespace tpc
