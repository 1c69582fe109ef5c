/// Where the kernels of one rank are issued.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compiler/ops/op_def.h"
#include "runtime/cuda/device_memory.h"

namespace tpc::cuda {

/// A stream of one rank, what varies from step to step in device memory, and working memory. What is issued to a queue
/// runs one after the other, so all of it uses the same working memory, each from its start.
class DeviceQueue {
 public:
  enum class Priority : uint8_t { kNormal, kHigh };

  /// Of the current device, which stays the thread's. Throws DeviceError.
  explicit DeviceQueue(Priority priority = Priority::kNormal);
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// Throws DeviceError when what was issued has failed.
  bool is_done() const;

  /// Seed and number of the training step that runs, in device memory: a captured step is replayed with other values.
  const StepContext* context() const { return reinterpret_cast<const StepContext*>(context_->data()); }
  /// Issues the copy of a new context.
  void set_context(const StepContext& context);

  /// For prepare(): room for `bytes` of working memory in run(). What lies there from other kernels is anything.
  void reserve(int64_t bytes);
  /// The most that reserve() was asked for since this was called last.
  int64_t take_reserved();
  /// For run() only, since it moves while kernels are prepared. 256-byte aligned.
  std::byte* workspace() const { return workspace_ ? workspace_->data() : nullptr; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  /// A kernel of this queue holds a table of this size from now on.
  void add_table(int64_t bytes) const { table_bytes_ += bytes; }
  /// Device memory that was taken since it was made: working memory, and the tables of its kernels.
  int64_t held_bytes() const { return workspace_bytes_ + table_bytes_; }

 private:
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaMemory> context_;
  std::unique_ptr<CudaMemory> workspace_;
  int64_t workspace_bytes_ = 0;
  mutable int64_t table_bytes_ = 0;  // those who make tables only read the queue
  int64_t reserved_ = 0;             // the largest wish, see take_reserved()
};

}  // namespace tpc::cuda
