#include "tests/fake_cuda/tests/mlp.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/child.h"

namespace fake_cuda::testing {
namespace {

constexpr double kTolerance = 1e-5;

// Every CUDA thread is a fiber, which the thread sanitizer makes slow.
#if defined(__SANITIZE_THREAD__)
constexpr int kNumSeeds = 2;
#else
constexpr int kNumSeeds = 20;
#endif

std::string seed(int number) { return "FAKE_CUDA_SEED=" + std::to_string(number); }

}  // namespace

TEST_CASE("a training step is right on every seed, eager and as a graph, and leaves nothing behind") {
  for (int number = 1; number <= kNumSeeds; ++number) {
    int num_ranks = 1 << (number % 3);
    CAPTURE(number);
    CAPTURE(num_ranks);
    std::vector<std::vector<float>> of_mode[2];
    for (bool graph : {false, true}) {
      Environment environment({seed(number)});
      of_mode[graph] = train_mlp_on_threads({num_ranks, Fault::kNone, graph});
      for (const std::vector<float>& losses : of_mode[graph]) CHECK(mlp_error(losses) < kTolerance);
      CHECK(find_leaks() == std::vector<std::string>{});
    }
    CHECK(of_mode[0] == of_mode[1]);
  }
}

TEST_CASE("faults of order are found on every seed") {
  for (Fault fault : {Fault::kNoWaitForReduce, Fault::kNoWaitForProduct, Fault::kNoReduce, Fault::kPinnedReused}) {
    for (bool graph : {false, true}) {
      for (int number = 1; number <= kNumSeeds; ++number) {
        // A stream that a capture does not reach is an error of the capture, see capture_test.cpp.
        bool is_captured = graph && fault == Fault::kNoWaitForProduct;
        if (is_captured) continue;
        CAPTURE(static_cast<int>(fault));
        CAPTURE(graph);
        CAPTURE(number);
        Environment environment({seed(number)});
        bool wrong = false;
        for (const std::vector<float>& losses : train_mlp_on_threads({2, fault, graph})) {
          wrong = wrong || !(mlp_error(losses) < kTolerance);
        }
        CHECK(wrong);
      }
    }
  }
}

TEST_CASE("a loss that is read without a wait is none yet") {
  for (int number = 1; number <= kNumSeeds; ++number) {
    Environment environment({seed(number)});
    for (const std::vector<float>& losses : train_mlp_on_threads({2, Fault::kLossReadEarly})) {
      CHECK(!(mlp_error(losses) < kTolerance));
    }
  }
}

TEST_CASE("host code that touches device memory is caught") {
  for (Fault fault : {Fault::kHostReads, Fault::kEagerKernel}) {
    for (int number = 1; number <= 3; ++number) {
      Ended ended = in_child({seed(number)}, [&] { train_mlp_on_threads({2, fault}); });
      CHECK(ended.signal == SIGABRT);
      CHECK(ended.said.find("host code touched device memory: byte 0 of allocation 1 of device") != std::string::npos);
    }
  }
}

TEST_CASE("a seed gives the same run again") {
  // One rank: the order does not depend on anybody else.
  auto draws = [](int number) {
    Environment environment({seed(number)});
    return train_mlp_on_threads({1, Fault::kNoWaitForReduce});
  };
  for (int number = 1; number <= std::min(5, kNumSeeds); ++number) CHECK(draws(number) == draws(number));
}

}  // namespace fake_cuda::testing
