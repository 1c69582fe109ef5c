/// What the model is trained on: the batch of step k is a pure function of (seed, k).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/host_tensor.h"

namespace tpc {

/// An input of a plan, and what the steps that read it make of it.
struct InputUse {
  enum class Kind : uint8_t { kTokens, kTargets, kValues, kUnused };
  std::string name;
  TensorType type;
  Kind kind = Kind::kUnused;
  /// Tokens and targets are ids in [0, vocabulary): the rows of the embedding table, or the width of the logits.
  int64_t vocabulary = 0;
};

/// Every input of the plan, in plan order. Ids of an embedding are tokens, operand 1 of softmax_stats is targets, f32
/// inputs are values; uses are followed through local moves and collectives.
std::vector<InputUse> find_input_uses(const Plan& plan);

/// Tokens of a batch: the elements of the token input, or else the rows of the first input (all but its last
/// dimension).
int64_t tokens_per_batch(const Plan& plan);

class DataSource {
 public:
  virtual ~DataSource() = default;
  /// All inputs of the plan; valid until the next call.
  virtual const Batch& batch(uint64_t step) = 0;
};

/// One random batch, the same at every step. Element i of input `name` comes from random word i of stream 0 of
/// philox_key(seed, "data/" + name): ids are word * vocabulary / 2^32, values are standard normal.
std::unique_ptr<DataSource> fixed_data(const Plan& plan, uint64_t seed);

/// Windows of a file. A name that ends in ".bin" is a file of little-endian uint16 tokens, any other a text whose bytes
/// are the tokens. Row r of step k starts at token w % (count - seq), where w = word 2r + 2^32 * word 2r+1 of stream k
/// of philox_key(seed, "data/windows"): tokens are the seq tokens from there, targets those one further. UserError: the
/// file cannot be read, is shorter than seq + 1 tokens, or holds a token that is not below the vocabulary (named with
/// its position); the plan has inputs that a file of tokens does not feed.
std::unique_ptr<DataSource> file_data(const Plan& plan, const std::string& file, uint64_t seed);

}  // namespace tpc
