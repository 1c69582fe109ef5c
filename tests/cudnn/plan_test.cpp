// cuDNN takes the graphs of attention and compiles them for an H200 that is only described, and what it does not take
// is refused in words.
#include "runtime/cuda/cudnn/plan.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

#include "runtime/cuda/cudnn/variant_pack.h"

namespace tpc::cuda::cudnn {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 40;
/// What the library adds to its account, for alignment and counters.
constexpr int64_t kLines = 1024;

// nullptr, and a message, where there is no cuDNN to ask.
const Library* library() {
  // cuDNN opens the driver's library by name; one of that name that is loaded already serves.
  static void* const kDriver = dlopen(TPC_STAND_IN_DRIVER, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE_MESSAGE(kDriver != nullptr, TPC_STAND_IN_DRIVER, " cannot be opened");
  const FoundLibrary& found = find_library();
  if (found.library == nullptr) MESSAGE("skipped: ", found.missing);
  return found.library;
}

PlanDevice h200(const Library& library) {
  std::ifstream file(TPC_SOURCE_DIR "/tests/cudnn/h200.json");
  std::stringstream text;
  text << file.rdbuf();
  return PlanDevice(library, text.str());
}

struct Sizes {
  int64_t batch, heads, kv_heads, queries, keys, head_dim;
};

CudnnAttention attention(const Sizes& sizes, bool causal, bool is_grad) {
  CudnnAttention asked;
  asked.is_grad = is_grad;
  asked.causal = causal;
  asked.batch = sizes.batch;
  asked.queries = sizes.queries;
  asked.heads = asked.all_heads = sizes.heads;
  asked.kv_heads = asked.all_kv_heads = sizes.kv_heads;
  asked.keys = asked.all_keys = sizes.keys;
  asked.head_dim = sizes.head_dim;
  asked.scale = 0.125F;
  return asked;
}

void check_compiles(const Library& library, const CudnnAttention& whole) {
  CudnnAttention part = part_at_once(whole);
  PlanChoice choice = plan_attention(library, part, h200(library), kNoLimit);
  std::string text = fmt::format("{}{} batch {} heads {}/{} queries {} keys {} head {}",
                                 whole.is_grad ? "grad" : "forward", whole.causal ? " causal" : "", whole.batch,
                                 whole.heads, whole.kv_heads, whole.queries, whole.keys, whole.head_dim);
  CAPTURE(text);
  CHECK_MESSAGE(choice.plan.has_value(), choice.refusal);
  if (!choice.plan) return;
  MESSAGE(text, ": workspace ", choice.plan->workspace_bytes, ", in ", cudnn_parts(whole, part).size(), " part(s)");
  CHECK(choice.plan->workspace_bytes <= (whole.is_grad ? gradient_workspace(part) : 0) + kLines);
}

void check_both_masks(const Sizes& sizes) {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  for (bool causal : {false, true}) {
    for (bool is_grad : {false, true}) check_compiles(*cudnn, attention(sizes, causal, is_grad));
  }
}

TEST_CASE("GPT-2 124M's attention compiles") { check_both_masks({4, 12, 12, 1024, 1024, 64}); }
TEST_CASE("GPT-2 1558M's attention compiles") { check_both_masks({4, 25, 25, 1024, 1024, 64}); }
TEST_CASE("GPT-2 124M's attention compiles for a rank of four") { check_both_masks({4, 3, 3, 1024, 1024, 64}); }
TEST_CASE("Llama 8B's attention compiles, its gradient in parts") { check_both_masks({1, 32, 8, 8192, 8192, 128}); }
TEST_CASE("Llama 8B's attention compiles for a rank of eight") { check_both_masks({1, 4, 1, 8192, 8192, 128}); }
TEST_CASE("attention of odd sizes compiles") { check_both_masks({2, 5, 5, 37, 37, 24}); }

TEST_CASE("attention with more keys than queries compiles") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  for (bool is_grad : {false, true}) {
    check_compiles(*cudnn, attention({2, 6, 2, 33, 65, 40}, /*causal=*/true, is_grad));
    check_compiles(*cudnn, attention({1, 2, 1, 1, 17, 16}, /*causal=*/true, is_grad));
  }
}

TEST_CASE("attention over keys that lie in a longer tensor compiles") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  for (bool is_grad : {false, true}) {
    CudnnAttention asked = attention({2, 4, 4, 64, 128, 64}, /*causal=*/true, is_grad);
    asked.all_keys = 256;
    check_compiles(*cudnn, asked);
  }
}

TEST_CASE("what cuDNN does not do is refused in words") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  for (int64_t head_dim : {20, 512}) {
    PlanChoice choice =
        plan_attention(*cudnn, attention({2, 2, 2, 64, 64, head_dim}, true, /*is_grad=*/true), h200(*cudnn), kNoLimit);
    CAPTURE(head_dim);
    CHECK(!choice.plan);
    CHECK(!choice.refusal.empty());
    MESSAGE(choice.refusal);
  }
}

TEST_CASE("a plan that needs too much working memory is refused") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  CudnnAttention asked = attention({2, 2, 2, 64, 64, 64}, true, /*is_grad=*/true);
  PlanChoice choice = plan_attention(*cudnn, asked, h200(*cudnn), /*most_workspace=*/4096);
  CHECK(!choice.plan);
  CHECK(choice.refusal.find("bytes of working memory") != std::string::npos);
}

TEST_CASE("a failure names the call and what cuDNN says") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  Descriptor tensor(*cudnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  try {
    tensor.finalize("tensor");
    FAIL("a tensor without attributes is finalized");
  } catch (const CudnnError& error) {
    CHECK(std::string(error.what()).starts_with("cudnnBackendFinalize of the tensor failed: CUDNN_STATUS_BAD_PARAM"));
    CHECK(error.is_refusal());
  }
  CHECK_THROWS_WITH_AS(PlanDevice(*cudnn, "{}"), doctest::Contains("CUDNN_STATUS_"), CudnnError);
  try {
    cudnn->check(CUDNN_STATUS_EXECUTION_FAILED, "cudnnBackendExecute");
  } catch (const CudnnError& error) {
    CHECK(!error.is_refusal());
  }
}

TEST_CASE("tensors and values are bound to a plan") {
  const Library* cudnn = library();
  if (cudnn == nullptr) return;
  CudnnAttention asked = attention({1, 2, 2, 8, 16, 16}, /*causal=*/true, /*is_grad=*/true);
  alignas(16) static std::byte memory[16];
  AttentionPointers pointers{memory, memory, memory, memory, memory, memory, memory, memory, memory, memory};
  std::vector<BoundSlot> slots = bind_part(asked, pointers, {});
  HostValues values(asked);
  values.bind(asked, slots);
  CHECK(slots.size() == 15);
  CHECK_NOTHROW(make_variant_pack(*cudnn, slots, memory));
}

}  // namespace
}  // namespace tpc::cuda::cudnn
