/// What is behind the handles that the CUDA runtime gives out.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tests/fake_cuda/capture.h"
#include "tests/fake_cuda/work.h"

namespace fake_cuda {

struct Device;

/// What was issued by one call: one operation, or a whole graph of them.
struct Item {
  struct Step {
    Work work;
    std::vector<size_t> after;
    int lane = 0;  ///< steps of one lane are quick or slow together
    bool running = false;
    bool done = false;
  };
  std::vector<Step> steps;
  std::shared_ptr<bool> exclusive;  ///< an executable graph runs once at a time: true while it does
  bool started = false;
};

}  // namespace fake_cuda

struct CUstream_st {
  fake_cuda::Device* device = nullptr;
  int number = 0;  ///< from 1, on its device
  int priority = 0;
  unsigned flags = 0;
  bool destroyed = false;
  std::deque<fake_cuda::Item> items;
  std::shared_ptr<fake_cuda::Capture> capture;
  std::vector<size_t> tail;  ///< of the capture: what the next node comes after
};

struct CUevent_st {
  fake_cuda::Device* device = nullptr;
  int number = 0;
  bool timing = true;
  bool destroyed = false;
  uint64_t recorded = 0;  ///< how often it was, by calls
  uint64_t done = 0;      ///< the last of them that has run
  std::chrono::steady_clock::time_point at;
  std::shared_ptr<fake_cuda::Capture> capture;  ///< it was last recorded in, and there it comes
  std::vector<size_t> after;                    ///< after these nodes
};

struct CUgraph_st {
  fake_cuda::Device* device = nullptr;
  int number = 0;
  bool destroyed = false;
  std::vector<fake_cuda::Node> nodes;
};

struct CUgraphExec_st {
  fake_cuda::Device* device = nullptr;
  int number = 0;
  bool destroyed = false;
  std::vector<fake_cuda::Node> nodes;
  std::shared_ptr<bool> running = std::make_shared<bool>(false);
};
