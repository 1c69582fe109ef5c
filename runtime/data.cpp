#include "runtime/data.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/core/check.h"
#include "compiler/core/diagnostic.h"
#include "compiler/core/philox.h"
#include "runtime/mapped_file.h"

namespace tpc {
namespace {

using Kind = InputUse::Kind;

const PlanTensor& tensor_at(const Plan& plan, int index) { return plan.tensors[static_cast<size_t>(index)]; }

// An input may be read as tokens and as targets: then it is tokens, of the smaller vocabulary.
void add_use(InputUse& use, Kind kind, int64_t vocabulary) {
  bool is_first = use.kind != Kind::kTokens && use.kind != Kind::kTargets;
  use.vocabulary = is_first ? vocabulary : std::min(use.vocabulary, vocabulary);
  if (use.kind != Kind::kTokens) use.kind = kind;
}

/// Steps that pass ids on unchanged.
bool carries_ids(OpKind op) {
  return is_move(op) || op == OpKind::kReshape || op == OpKind::kTranspose || op == OpKind::kSlice ||
         op == OpKind::kPad || op == OpKind::kConcat;
}

void find_uses_of(const Plan& plan, int tensor, InputUse& use) {
  // The tensors that hold the input's values, in the order in which steps make them.
  std::vector<int> same{tensor};
  auto is_same = [&](const PlanStep& step, size_t operand) {
    return operand < step.operands.size() && std::find(same.begin(), same.end(), step.operands[operand]) != same.end();
  };
  for (const PlanStep& step : plan.steps) {
    for (size_t i = 0; carries_ids(step.op) && i < step.operands.size(); ++i) {
      if (is_same(step, i)) same.push_back(step.results[0]);
    }
    if (step.op == OpKind::kEmbedding && is_same(step, 0)) {
      add_use(use, Kind::kTokens, tensor_at(plan, step.operands[1]).type.shape[0]);
    }
    if (step.op == OpKind::kSoftmaxStats && is_same(step, 1)) {
      add_use(use, Kind::kTargets, tensor_at(plan, step.operands[0]).type.shape.back());
    }
  }
}

std::string nice_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  return text;
}

Batch empty_batch(const std::vector<InputUse>& uses) {
  Batch batch;
  for (const InputUse& use : uses) batch.emplace(use.name, HostTensor::of(use.type));
  return batch;
}

class FixedData final : public DataSource {
 public:
  FixedData(const Plan& plan, uint64_t seed) {
    std::vector<InputUse> uses = find_input_uses(plan);
    batch_ = empty_batch(uses);
    for (const InputUse& use : uses) {
      PhiloxKey key = philox_key(seed, "data/" + use.name);
      HostTensor& tensor = batch_.at(use.name);
      for (size_t i = 0; i < tensor.size(); ++i) {
        if (use.type.dtype == DType::kF32) {
          tensor.f32[i] = static_cast<float>(random_normal(key, 0, i));
        } else {
          uint64_t scaled = uint64_t{random_word(key, 0, i)} * static_cast<uint64_t>(use.vocabulary);
          tensor.i32[i] = static_cast<int32_t>(scaled >> 32);
        }
      }
    }
  }

  const Batch& batch(uint64_t) override { return batch_; }

 private:
  Batch batch_;
};

class FileData final : public DataSource {
 public:
  FileData(const Plan& plan, const std::string& file, uint64_t seed)
      : name_(file),
        is_binary_(file.ends_with(".bin")),
        uses_(find_input_uses(plan)),
        batch_(empty_batch(uses_)),
        file_(file),
        key_(philox_key(seed, "data/windows")) {
    check_inputs();
    for (const InputUse& use : uses_) {
      if (use.kind == Kind::kUnused) continue;
      sequence_ = use.type.shape.empty() ? 1 : use.type.shape.back();
      rows_ = num_elements(use.type.shape) / sequence_;
      vocabulary_ = vocabulary_ == 0 ? use.vocabulary : std::min(vocabulary_, use.vocabulary);
    }
    check_tokens();
  }

  const Batch& batch(uint64_t step) override {
    auto choices = static_cast<uint64_t>(num_tokens() - sequence_);
    for (int64_t row = 0; row < rows_; ++row) {
      auto word = 2 * static_cast<uint64_t>(row);
      uint64_t random = random_word(key_, step, word) | (uint64_t{random_word(key_, step, word + 1)} << 32);
      auto start = static_cast<int64_t>(random % choices);
      for (const InputUse& use : uses_) {
        if (use.kind == Kind::kUnused) continue;
        int64_t shift = use.kind == Kind::kTargets ? 1 : 0;
        int32_t* out = batch_.at(use.name).i32.data() + row * sequence_;
        for (int64_t i = 0; i < sequence_; ++i) out[i] = token(start + shift + i);
      }
    }
    return batch_;
  }

 private:
  int64_t num_tokens() const { return static_cast<int64_t>(file_.bytes().size()) / (is_binary_ ? 2 : 1); }

  int32_t token(int64_t index) const {
    auto i = static_cast<size_t>(index);
    std::span<const unsigned char> bytes = file_.bytes();
    return is_binary_ ? bytes[2 * i] | (bytes[2 * i + 1] << 8) : bytes[i];
  }

  void check_inputs() const {
    std::vector<std::string> values;
    std::vector<const InputUse*> fed;
    for (const InputUse& use : uses_) {
      if (use.kind == Kind::kValues) values.push_back(use.name);
      if (use.kind == Kind::kTokens || use.kind == Kind::kTargets) fed.push_back(&use);
    }
    if (!values.empty()) {
      throw UserError({name_, ""}, fmt::format("a file of tokens cannot feed the f32 input{} {}; use --data fixed",
                                               values.size() == 1 ? "" : "s", nice_list(values)));
    }
    if (fed.empty()) {
      throw UserError({name_, ""}, "the plan has no input for tokens or targets; use --data fixed");
    }
    for (const InputUse* use : fed) {
      if (use->type.shape == fed[0]->type.shape) continue;
      throw UserError(
          {name_, ""},
          fmt::format("inputs \"{}\" {} and \"{}\" {} differ in shape, so windows of one file cannot feed both",
                      fed[0]->name, to_string(fed[0]->type), use->name, to_string(use->type)));
    }
  }

  void check_tokens() const {
    if (is_binary_ && file_.bytes().size() % 2 != 0) {
      throw UserError({name_, ""}, fmt::format("a file of uint16 tokens has an even number of bytes, this one {}",
                                               file_.bytes().size()));
    }
    if (num_tokens() <= sequence_) {
      throw UserError({name_, ""}, fmt::format("the file has {} token{}; a sequence of {} needs at least {}",
                                               num_tokens(), num_tokens() == 1 ? "" : "s", sequence_, sequence_ + 1));
    }
    if (vocabulary_ > (is_binary_ ? 0xffff : 0xff)) return;
    for (int64_t i = 0; i < num_tokens(); ++i) {
      if (token(i) < vocabulary_) continue;
      Diagnostic diagnostic;
      diagnostic.loc = {name_, ""};
      diagnostic.message =
          fmt::format("token {} at position {} is not below the vocabulary of the model, {}", token(i), i, vocabulary_);
      if (!is_binary_) diagnostic.byte = i;
      throw UserError(std::move(diagnostic));
    }
  }

  std::string name_;
  bool is_binary_;
  std::vector<InputUse> uses_;
  Batch batch_;
  MappedFile file_;
  PhiloxKey key_;
  int64_t sequence_ = 1;
  int64_t rows_ = 1;
  int64_t vocabulary_ = 0;
};

}  // namespace

std::vector<InputUse> find_input_uses(const Plan& plan) {
  std::vector<InputUse> uses;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlanTensor& tensor = plan.tensors[t];
    if (tensor.role != TensorRole::kInput) continue;
    InputUse use{tensor.name, tensor.type, Kind::kUnused, 0};
    if (tensor.type.dtype == DType::kF32) {
      use.kind = Kind::kValues;
    } else {
      find_uses_of(plan, static_cast<int>(t), use);
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

int64_t tokens_per_batch(const Plan& plan) {
  std::vector<InputUse> uses = find_input_uses(plan);
  if (uses.empty()) return 0;
  for (const InputUse& use : uses) {
    if (use.kind == Kind::kTokens) return num_elements(use.type.shape);
  }
  const Shape& shape = uses[0].type.shape;
  return shape.empty() ? 1 : num_elements(shape) / shape.back();
}

std::unique_ptr<DataSource> fixed_data(const Plan& plan, uint64_t seed) {
  return std::make_unique<FixedData>(plan, seed);
}

std::unique_ptr<DataSource> file_data(const Plan& plan, const std::string& file, uint64_t seed) {
  return std::make_unique<FileData>(plan, file, seed);
}

}  // namespace tpc
