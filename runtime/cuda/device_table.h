/// A table of a kernel's own in device memory: what is too long to be an argument.
#pragma once

#include <cuda_runtime.h>

#include <span>
#include <utility>

#include "runtime/cuda/check_cuda.h"
#include "runtime/cuda/device_queue.h"

namespace tpc::cuda {

/// Plain values; made in prepare(), freed with the kernel.
template <class T>
class DeviceTable {
 public:
  /// Copies the rows and waits for it. Throws DeviceError.
  DeviceTable(std::span<const T> rows, DeviceQueue& queue) {
    if (rows.empty()) return;
    TPC_CUDA(cudaMalloc(&rows_, rows.size_bytes()));
    queue.add_table(static_cast<int64_t>(rows.size_bytes()));
    TPC_CUDA(cudaMemcpyAsync(rows_, rows.data(), rows.size_bytes(), cudaMemcpyHostToDevice, queue.stream()));
    TPC_CUDA(cudaStreamSynchronize(queue.stream()));
  }
  DeviceTable(DeviceTable&& other) noexcept : rows_(std::exchange(other.rows_, nullptr)) {}
  DeviceTable& operator=(DeviceTable&&) = delete;
  // What fails here has failed before.
  ~DeviceTable() { static_cast<void>(cudaFree(rows_)); }

  const T* data() const { return rows_; }

 private:
  T* rows_ = nullptr;
};

}  // namespace tpc::cuda
