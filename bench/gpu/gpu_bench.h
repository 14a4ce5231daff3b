#pragma once

// What programs that time kernels on a GPU share: its memory, a file of results that a later run
// goes on with, medians, and the limits of the same machine that times are held against.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/results.h"
#include "common/dtype.h"
#include "common/philox.h"
#include "common/status.h"

namespace janus::kernels::cuda {

inline constexpr int64_t kArenaBytes = int64_t{4} << 30;
inline constexpr int kCalls = 30;

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::cerr << what << ": " << cudaGetErrorString(error) << '\n';
  std::exit(3);
}

// Uniform in [-scale, scale), 8 elements a thread.
static __global__ void Fill(uint16_t* to, int64_t count, float scale, uint32_t seed) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (8 * i + 8 > count) return;
  const auto words =
      Philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, {seed, 0});
  for (int j = 0; j < 8; ++j) {
    const auto half = static_cast<float>(words[j / 2] >> (16 * (j % 2)) & 0xFFFFu);
    to[8 * i + j] = ToBFloat16((half / 32768.0f - 1.0f) * scale);
  }
}

static __global__ void Read(const uint4* from, int64_t count, uint32_t* out) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
#pragma unroll 8
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = from[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x5EED) *out = sum;  // so that the reads stay
}

static __global__ void Empty() {}

template <class T>
T* Allocate(int64_t count) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T)), "memory of the device");
  return static_cast<T*>(memory);
}

template <class T>
T* CopyIn(const std::vector<T>& from) {
  T* const to = Allocate<T>(static_cast<int64_t>(from.size()));
  Check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return to;
}

// The median time of call(i), in microseconds.
template <class Call>
double Median(cudaStream_t stream, Call call) {
  for (int i = 0; i < 3; ++i) call(i);
  std::vector<cudaEvent_t> events(2 * kCalls);
  for (cudaEvent_t& event : events) Check(cudaEventCreate(&event), "event");
  for (int i = 0; i < kCalls; ++i) {
    Check(cudaEventRecord(events[2 * i], stream), "event");
    call(i + 3);
    Check(cudaEventRecord(events[2 * i + 1], stream), "event");
  }
  Check(cudaStreamSynchronize(stream), "the calls");
  std::vector<float> times(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    Check(cudaEventElapsedTime(&times[i], events[2 * i], events[2 * i + 1]), "event");
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  std::ranges::nth_element(times, times.begin() + kCalls / 2);
  return 1000.0 * times[kCalls / 2];
}

// y = a + b * x by least squares.
struct Line {
  double a = 0.0;
  double b = 0.0;
};
// weight(y): what a point counts.
template <class Weight>
Line FitLine(const std::vector<std::pair<double, double>>& points, Weight weight) {
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [x, y] : points) {
    const double w = weight(y);
    n += w;
    sum_x += w * x;
    sum_y += w * y;
    sum_xx += w * x * x;
    sum_xy += w * x * y;
  }
  const double b = (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x);
  return {(sum_y - b * sum_x) / n, b};
}

inline void Check(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << '\n';
  std::exit(3);
}

// Operations a microsecond that tensor cores make in bfloat16 at the GPU's own clock: of a
// multiprocessor 4,096 a cycle from sm_90 on, 2,048 before.
inline double PeakFlops() {
  int major = 0, processors = 0, khz = 0;
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "device");
  Check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "device");
  Check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "device");
  return (major >= 9 ? 4096.0 : 2048.0) * processors * khz / 1000.0;
}

// An arena of random bfloat16 that inputs rotate through, and a stream.
class GpuBench {
 public:
  explicit GpuBench(Results& results) : results_(results) {
    Check(cudaStreamCreate(&stream_), "stream");
    arena_ = Allocate<uint16_t>(kArenaBytes / 2);
    const int64_t threads = kArenaBytes / 16;
    Fill<<<static_cast<unsigned>(threads / 256), 256, 0, stream_>>>(arena_, kArenaBytes / 2, 0.02f,
                                                                    1);
    Check(cudaGetLastError(), "fill");
  }

  // What everything else is held against.
  void Limits() {
    const double empty = TimeOf("empty kernel", 0, [&](int) { Empty<<<1, 32, 0, stream_>>>(); });
    auto* const out = Allocate<uint32_t>(1);
    const int64_t bytes = int64_t{1} << 30;
    const double read = TimeOf("read 1 GiB", bytes, [&](int i) {
      const auto* const from = reinterpret_cast<const uint4*>(arena_) + i % 4 * (bytes / 16);
      Read<<<132 * 16, 512, 0, stream_>>>(from, bytes / 16, out);
    });
    read_bandwidth_ = static_cast<double>(bytes) / (read - empty);
    cudaFree(out);
  }

  cudaStream_t stream() const { return stream_; }
  double read_bandwidth() const { return read_bandwidth_; }  // bytes a microsecond, as measured
  const uint16_t* arena() const { return arena_; }

  // The median time of call(i), which reads so many bytes and is so many operations (0: not told),
  // in microseconds; as the results have it already, if they do.
  template <class Call>
  double TimeOf(const std::string& name, int64_t bytes, Call call, int64_t flops = 0) {
    return TimeOn(stream_, name, bytes, call, flops);
  }
  // The same of calls that queue on another stream.
  template <class Call>
  double TimeOn(cudaStream_t stream, const std::string& name, int64_t bytes, Call call,
                int64_t flops) {
    if (const double known = results_.Find(name, "us"); known >= 0.0) return known;
    const double time = Median(stream, call);
    std::string fields =
        "\"us\": " + std::to_string(time) + ", \"bytes\": " + std::to_string(bytes);
    if (bytes > 0 && read_bandwidth_ > 0.0) {
      fields += ", \"share_of_read\": " +
                std::to_string(static_cast<double>(bytes) / time / read_bandwidth_);
    }
    if (flops > 0) {
      fields += ", \"tflops\": " + std::to_string(static_cast<double>(flops) / time / 1e6);
    }
    results_.Write(name, fields);
    return time;
  }

 private:
  Results& results_;
  cudaStream_t stream_ = nullptr;
  uint16_t* arena_ = nullptr;
  double read_bandwidth_ = 0.0;
};

// run(bench, results) over the file of results that the command line names.
template <class Run>
int BenchMain(int argc, char** argv, Run run) {
  if (argc != 3 || std::string(argv[1]) != "--results") {
    std::cerr << "usage: " << argv[0] << " --results FILE\n";
    return 2;
  }
  cudaDeviceProp device{};
  Check(cudaGetDeviceProperties(&device, 0), "no GPU that can run this");
  Results results(argv[2]);
  if (!results.ok()) {
    std::cerr << "cannot write " << argv[2] << '\n';
    return 2;
  }
  results.Write("device", std::string("\"name\": \"") + device.name + "\"");
  GpuBench bench(results);
  bench.Limits();
  run(bench, results);
  return 0;
}

}  // namespace janus::kernels::cuda
