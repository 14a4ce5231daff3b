#include "dataplane/worker/cpu_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/model/memory.h"
#include "kernels/kernels.h"

namespace janus::dataplane {
namespace {

constexpr int kRuns = 5;
constexpr Seconds kMostOfOneRate{0.06};
constexpr int64_t kLeastBytes = int64_t{1} << 20;
constexpr int64_t kMostBytes = int64_t{32} << 20;
// Rows enough that their operations, and not the weights, take the time.
constexpr int64_t kManyRows = 64;
// Of the weights that many rows are multiplied with: they stay in a core's own cache.
constexpr int64_t kManyRowsBytes = int64_t{512} << 10;

// What one row reads of the model in a step.
int64_t BytesOfOneRow(const ModelDescription& model) {
  const int64_t layers = model.moe_layers();
  return AttentionWeightBytes(model) + ExpertWeightBytes(model) * layers * model.moe.top_k;
}

// Median seconds of a run after one that warms up.
template <class Run>
Result<double> MedianSeconds(const Run& run) {
  using Clock = std::chrono::steady_clock;
  JANUS_RETURN_IF_ERROR(run());
  std::vector<double> seconds;
  Seconds total{0};
  while (seconds.size() < kRuns && total < kMostOfOneRate) {
    const Clock::time_point begin = Clock::now();
    JANUS_RETURN_IF_ERROR(run());
    const Seconds taken = Clock::now() - begin;
    seconds.push_back(taken.count());
    total += taken;
  }
  std::ranges::sort(seconds);
  return std::max(seconds[seconds.size() / 2], 1e-9);
}

// A projection as the model has them, over weights that are one small number each: subnormal and
// special values have other speeds.
class Projection {
 public:
  explicit Projection(const ModelDescription& model)
      : inputs_(model.hidden),
        weight_type_(model.dtype),
        row_type_(WireType(model)),
        outputs_(OutputsOf(std::clamp(BytesOfOneRow(model), kLeastBytes, kMostBytes))) {
    weights_.resize(static_cast<size_t>(outputs_ * RowBytesOfWeights() / 2));
    rows_.resize(static_cast<size_t>(kManyRows * inputs_ * SizeOf(row_type_) / 2));
    results_.resize(static_cast<size_t>(std::max(outputs_, kManyRows * ManyRowsOutputs())));
    std::ranges::fill(weights_, kSmall);
    std::ranges::fill(rows_, kSmall);
  }

  Result<ComputeRate> Measure(kernels::Isa isa, int threads) {
    kernels::Team team(threads);
    const kernels::Stream stream{kernels::Device::kCpu, &team, isa, nullptr};
    JANUS_ASSIGN_OR_RETURN(const double read,
                           MedianSeconds([&] { return Run(stream, 1, outputs_); }));
    JANUS_ASSIGN_OR_RETURN(const double computed, MedianSeconds([&] {
                             return Run(stream, kManyRows, ManyRowsOutputs());
                           }));
    const int64_t products = kManyRows * ManyRowsOutputs() * inputs_;
    return ComputeRate{static_cast<double>(outputs_ * RowBytesOfWeights()) / read,
                       2 * static_cast<double>(products) / computed};
  }

 private:
  // 0.0117 in bfloat16, 0.61 in float16; two of them are 0.0118 in float32.
  static constexpr uint16_t kSmall = 0x3c40;

  int64_t RowBytesOfWeights() const { return inputs_ * SizeOf(weight_type_); }
  int64_t OutputsOf(int64_t bytes) const {
    return std::max<int64_t>(bytes / RowBytesOfWeights() / 16 * 16, 16);
  }
  int64_t ManyRowsOutputs() const { return std::min(outputs_, OutputsOf(kManyRowsBytes)); }

  Status Run(const kernels::Stream& stream, int64_t rows, int64_t outputs) {
    kernels::LinearArgs args;
    args.x = rows_.data();
    args.x_dtype = row_type_;
    args.weight = weights_.data();
    args.weight_dtype = weight_type_;
    args.y = results_.data();
    args.rows = rows;
    args.outputs = outputs;
    args.inputs = inputs_;
    return Linear(stream, args);
  }

  const int64_t inputs_;
  const DType weight_type_;
  const DType row_type_;
  const int64_t outputs_;
  std::vector<uint16_t> weights_;
  std::vector<uint16_t> rows_;
  std::vector<float> results_;
};

}  // namespace

Result<CpuSpeed> MeasureCpuSpeed(const ModelDescription& model, int threads) {
  JANUS_ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::SelectIsa(kernels::DetectCpu()));
  constexpr int kMostThreads = 256;  // of a team
  CpuSpeed out;
  out.threads = std::clamp(threads, 1, kMostThreads);
  Projection projection(model);
  JANUS_ASSIGN_OR_RETURN(out.one, projection.Measure(isa, 1));
  out.all = out.one;
  if (out.threads == 1) return out;
  JANUS_ASSIGN_OR_RETURN(out.all, projection.Measure(isa, out.threads));
  return out;
}

Result<CpuSpeed> CpuSpeedOnce::Get(const ModelDescription& model, int threads) {
  const MutexLock lock(mu_);
  if (!measured_) measured_ = MeasureCpuSpeed(model, threads);
  return *measured_;
}

}  // namespace janus::dataplane
