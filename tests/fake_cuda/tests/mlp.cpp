#include "tests/fake_cuda/tests/mlp.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "tests/fake_cuda/tests/check.h"
#include "tests/fake_cuda/tests/gemm.h"
#include "tests/fake_cuda/tests/test_kernels.h"

namespace fake_cuda::testing {
namespace {

constexpr int kTokens = 12;
constexpr int kWidth = 16;
constexpr int kHidden = 32;
constexpr float kRate = 0.5F;

using Values = std::vector<float>;

Values random_values(size_t count, unsigned seed, float scale) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = scale * normal(bits);
  return values;
}

struct Model {
  Values w1 = random_values(kWidth * kHidden, 1, 0.3F);
  Values b1 = random_values(kHidden, 2, 0.1F);
  Values w2 = random_values(kHidden * kWidth, 3, 0.3F);
};

Values batch(int step) { return random_values(kTokens * kWidth, 10 + static_cast<unsigned>(step), 1); }
Values targets() { return random_values(kTokens * kWidth, 5, 1); }

Values columns(const Values& matrix, int rows, int cols, int first, int count) {
  Values part;
  for (int row = 0; row < rows; ++row) {
    for (int col = first; col < first + count; ++col) part.push_back(matrix[static_cast<size_t>(row * cols + col)]);
  }
  return part;
}

class Rank {
 public:
  Rank(const MlpOptions& options, const ncclUniqueId& id, int rank)
      : options_(options), hidden_(kHidden / options.num_ranks), first_(rank * hidden_) {
    MUST(ncclCommInitRank(&communicator_, options.num_ranks, id, rank));
    MUST(cublasLtCreate(&handle_));
    MUST(cudaMallocHost(reinterpret_cast<void**>(&host_x_), kTokens * kWidth * sizeof(float)));
    MUST(cudaMallocHost(reinterpret_cast<void**>(&host_loss_), sizeof(float)));
  }

  ~Rank() {
    if (executable_ != nullptr) MUST(cudaGraphExecDestroy(executable_));
    MUST(cudaStreamSynchronize(compute_));
    MUST(cudaStreamSynchronize(communication_));
    MUST(cudaFreeHost(host_x_));
    MUST(cudaFreeHost(host_loss_));
    MUST(cublasLtDestroy(handle_));
    MUST(ncclCommDestroy(communicator_));
  }

  float step(int number) {
    Values x = batch(number);
    std::memcpy(host_x_, x.data(), x.size() * sizeof(float));
    if (executable_ != nullptr) {
      MUST(cudaGraphLaunch(executable_, compute_));
    } else if (options_.graph && number > 0) {
      capture();
      MUST(cudaGraphLaunch(executable_, compute_));
    } else {
      issue();
    }
    if (options_.fault == Fault::kPinnedReused) std::memset(host_x_, 0, x.size() * sizeof(float));
    if (options_.fault == Fault::kLossReadEarly) return *host_loss_;
    if (options_.fault == Fault::kHostReads) return *w1_.data();
    if (options_.fault == Fault::kEagerKernel) w1_.data()[0] += 1;
    MUST(cudaStreamSynchronize(compute_));
    return *host_loss_;
  }

 private:
  void issue() {
    MUST(cudaMemcpyAsync(x_.data(), host_x_, kTokens * kWidth * sizeof(float), cudaMemcpyHostToDevice, compute_));
    GemmOptions gelu;
    gelu.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    gelu.bias = b1_.data();
    gelu.aux = z_.data();
    product(kTokens, hidden_, kWidth, false, false, x_, w1_, h_, gelu);
    product(kTokens, kWidth, hidden_, false, false, h_, w2_, y_);
    reduce(y_, options_.fault != Fault::kNoReduce);
    if (options_.fault != Fault::kNoWaitForReduce) MUST(cudaStreamWaitEvent(compute_, reduced_, 0));
    MUST(squared_loss(y_.data(), target_.data(), dy_.data(), loss_.data(), kTokens * kWidth, compute_));
    MUST(cudaMemcpyAsync(host_loss_, loss_.data(), sizeof(float), cudaMemcpyDeviceToHost, compute_));
    product(hidden_, kWidth, kTokens, true, false, h_, dy_, dw2_);
    GemmOptions slope;
    slope.epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD;
    slope.bias = db1_.data();
    slope.aux = z_.data();
    product(kTokens, hidden_, kWidth, false, true, dy_, w2_, dh_, slope);
    product(kWidth, hidden_, kTokens, true, false, x_, dh_, dw1_);
    product(kTokens, kWidth, hidden_, false, true, dh_, w1_, dx_);
    // The update goes on meanwhile.
    reduce(dx_, true);
    MUST(add_scaled(w1_.data(), dw1_.data(), -kRate, kWidth * hidden_, compute_));
    MUST(add_scaled(b1_.data(), db1_.data(), -kRate, hidden_, compute_));
    MUST(add_scaled(w2_.data(), dw2_.data(), -kRate, hidden_ * kWidth, compute_));
    MUST(cudaStreamWaitEvent(compute_, reduced_, 0));
  }

  void capture() {
    MUST(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
    issue();
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamEndCapture(compute_, &graph));
    MUST(cudaGraphInstantiate(&executable_, graph, 0));
    MUST(cudaGraphDestroy(graph));
  }

  void product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, const DeviceFloats& a, const DeviceFloats& b,
               const DeviceFloats& d, const GemmOptions& options = {}) {
    MUST(gemm(handle_, compute_, m, n, k, ta, tb, a.data(), b.data(), d.data(), options));
  }

  void reduce(const DeviceFloats& values, bool really) {
    MUST(cudaEventRecord(produced_, compute_));
    if (options_.fault != Fault::kNoWaitForProduct) MUST(cudaStreamWaitEvent(communication_, produced_, 0));
    if (really) {
      MUST(ncclAllReduce(values.data(), values.data(), kTokens * kWidth, ncclFloat32, ncclSum, communicator_,
                         communication_));
    }
    MUST(cudaEventRecord(reduced_, communication_));
  }

  static size_t size(int rows, int cols) { return static_cast<size_t>(rows) * static_cast<size_t>(cols); }

  MlpOptions options_;
  int hidden_;
  int first_;
  ncclComm_t communicator_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  Stream compute_;
  Stream communication_;
  Event produced_;
  Event reduced_;
  cudaGraphExec_t executable_ = nullptr;
  float* host_x_ = nullptr;
  float* host_loss_ = nullptr;
  Model model_;
  DeviceFloats w1_{columns(model_.w1, kWidth, kHidden, first_, hidden_), compute_};
  DeviceFloats b1_{Values(model_.b1.begin() + first_, model_.b1.begin() + first_ + hidden_), compute_};
  DeviceFloats w2_{Values(model_.w2.begin() + first_ * kWidth, model_.w2.begin() + (first_ + hidden_) * kWidth),
                   compute_};
  DeviceFloats target_{targets(), compute_};
  DeviceFloats x_{size(kTokens, kWidth)}, h_{size(kTokens, hidden_)}, z_{size(kTokens, hidden_)};
  DeviceFloats y_{size(kTokens, kWidth)}, dy_{size(kTokens, kWidth)}, dx_{size(kTokens, kWidth)};
  DeviceFloats dh_{size(kTokens, hidden_)}, dw1_{size(kWidth, hidden_)}, db1_{size(1, hidden_)},
      dw2_{size(hidden_, kWidth)};
  DeviceFloats loss_{1};
};

}  // namespace

std::vector<float> train_mlp(const MlpOptions& options, const ncclUniqueId& id, int rank, int device) {
  MUST(cudaSetDevice(device));
  std::vector<float> losses;
  Rank training(options, id, rank);
  for (int step = 0; step < options.steps; ++step) losses.push_back(training.step(step));
  return losses;
}

std::vector<std::vector<float>> train_mlp_on_threads(const MlpOptions& options) {
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  std::vector<std::vector<float>> losses(static_cast<size_t>(options.num_ranks));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    ranks.emplace_back([&, rank] { losses[static_cast<size_t>(rank)] = train_mlp(options, id, rank, rank); });
  }
  for (std::thread& rank : ranks) rank.join();
  return losses;
}

std::vector<double> train_mlp_reference(int steps) {
  Model model;
  std::vector<double> w1(model.w1.begin(), model.w1.end()), b1(model.b1.begin(), model.b1.end());
  std::vector<double> w2(model.w2.begin(), model.w2.end()), losses;
  Values target = targets();
  auto at = [](int row, int cols, int col) { return static_cast<size_t>(row * cols + col); };
  const double c = std::sqrt(2 / std::acos(-1.0));
  for (int step = 0; step < steps; ++step) {
    Values x = batch(step);
    std::vector<double> dw1(w1.size()), db1(b1.size()), dw2(w2.size());
    double loss = 0;
    for (int t = 0; t < kTokens; ++t) {
      std::vector<double> h(kHidden), slope(kHidden), dy(kWidth);
      for (int j = 0; j < kHidden; ++j) {
        double z = b1[at(0, 0, j)];
        for (int i = 0; i < kWidth; ++i) z += x[at(t, kWidth, i)] * w1[at(i, kHidden, j)];
        double tanh = std::tanh(c * (z + 0.044715 * z * z * z));
        h[at(0, 0, j)] = 0.5 * z * (1 + tanh);
        slope[at(0, 0, j)] = 0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * c * (1 + 3 * 0.044715 * z * z);
      }
      for (int i = 0; i < kWidth; ++i) {
        double y = -target[at(t, kWidth, i)];
        for (int j = 0; j < kHidden; ++j) y += h[at(0, 0, j)] * w2[at(j, kWidth, i)];
        loss += y * y;
        dy[at(0, 0, i)] = 2 * y / (kTokens * kWidth);
      }
      for (int j = 0; j < kHidden; ++j) {
        double dh = 0;
        for (int i = 0; i < kWidth; ++i) {
          dw2[at(j, kWidth, i)] += h[at(0, 0, j)] * dy[at(0, 0, i)];
          dh += dy[at(0, 0, i)] * w2[at(j, kWidth, i)];
        }
        dh *= slope[at(0, 0, j)];
        db1[at(0, 0, j)] += dh;
        for (int i = 0; i < kWidth; ++i) dw1[at(i, kHidden, j)] += x[at(t, kWidth, i)] * dh;
      }
    }
    losses.push_back(loss / (kTokens * kWidth));
    for (size_t i = 0; i < w1.size(); ++i) w1[i] -= kRate * dw1[i];
    for (size_t i = 0; i < b1.size(); ++i) b1[i] -= kRate * db1[i];
    for (size_t i = 0; i < w2.size(); ++i) w2[i] -= kRate * dw2[i];
  }
  return losses;
}

double mlp_error(const std::vector<float>& losses) {
  std::vector<double> wanted = train_mlp_reference(static_cast<int>(losses.size()));
  double error = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (std::isnan(losses[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(losses[i] - wanted[i]) / wanted[i]);
  }
  return error;
}

}  // namespace fake_cuda::testing
