#include "bench/gpu/gpu_clock.h"

#include <cuda_runtime.h>

#include "common/check.h"

namespace janus::bench {
namespace {

void Check(cudaError_t error) {
  JANUS_CHECK(error == cudaSuccess, cudaGetErrorString(error));
}

class GpuClock final : public StreamClock {
 public:
  GpuClock() { Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~GpuClock() override {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }
  size_t Mark(const kernels::Stream& stream) override {
    cudaEvent_t event = nullptr;
    Check(cudaEventCreate(&event));
    Check(cudaEventRecord(event, static_cast<cudaStream_t>(stream.native)));
    const MutexLock lock(mu_);
    events_.push_back(event);
    return events_.size() - 1;
  }
  double SecondsOf(size_t mark) override {
    const MutexLock lock(mu_);
    float milliseconds = 0.0f;
    Check(cudaEventSynchronize(events_[mark]));
    Check(cudaEventElapsedTime(&milliseconds, events_[0], events_[mark]));
    return 1e-3 * static_cast<double>(milliseconds);
  }
  kernels::Stream own_stream() override {
    return {.device = kernels::Device::kCuda, .native = stream_};
  }

 private:
  cudaStream_t stream_ = nullptr;
  Mutex mu_;
  std::vector<cudaEvent_t> events_ JANUS_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<StreamClock> MakeGpuClock() {
  return std::make_unique<GpuClock>();
}

}  // namespace janus::bench
