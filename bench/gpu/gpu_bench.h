#pragma once

// Shared by programs that time kernels on a GPU: a memory arena through which calls rotate, so that
// no call finds in the cache what another left there; a file of results that a later run continues;
// medians (bench/gpu/stream_times.h); and the limits of this machine, to compare times with.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "bench/gpu/outputs.h"
#include "bench/gpu/results.h"
#include "bench/gpu/rotation.h"
#include "bench/gpu/stream_times.h"
#include "bench/gpu/tensor_rate.h"
#include "common/dtype.h"
#include "common/philox.h"
#include "common/status.h"
#include "kernels/cuda/start.h"

namespace janus::kernels::cuda {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t kArenaBytes = int64_t{4} << 30;
// How many calls a case needs so that each has different bytes: at least all samples of a median.
inline int64_t CallsOfATurn(int64_t bytes) {
  return bench::CallsOfATurn(bytes, kCalls + 3);
}

// Uniform in [-scale, scale), 8 elements per thread.
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
  if (sum == 0x5EED) *out = sum;  // keeps the reads alive
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

// The median time of call(i), in microseconds. prepare(i) runs before each and is not timed. Every
// call gets a new i, also when samples are repeated.
struct Nothing {
  void operator()(int /*call*/) const {}
};
struct MedianTime {
  double us = 0.0;
  bool ran_ahead = true;  // see Medians
};
template <class Call, class Prepare = Nothing>
MedianTime Median(cudaStream_t stream, Call call, Prepare prepare = {}) {
  int next = 0;
  for (; next < 3; ++next) {
    prepare(next);
    call(next);
  }
  const Medians medians = MediansOf(stream, kCalls, [&](StreamTimes& times, int /*sample*/) {
    prepare(next);
    times.Add(0, [&] { call(next); });
    ++next;
  });
  return {medians.us.at(0), medians.ran_ahead};
}

inline void Check(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << '\n';
  std::exit(3);
}

// A case that is timed: one line of results.
struct Timed {
  std::string name;
  int64_t bytes = 0;        // that a call reads; 0: unknown
  int64_t flops = 0;        // its operations; 0: unknown
  Output output = {};       // checked after a first call
  std::string fields = {};  // more fields, each ", \"key\": value"
};

// A stream, and an arena of random bfloat16 through which inputs rotate.
class GpuBench {
 public:
  explicit GpuBench(Results& results) : results_(results) {
    Check(cudaStreamCreate(&stream_), "stream");
    arena_ = Allocate<uint16_t>(kArenaBytes / 2);
    ignored_ = Allocate<uint32_t>(1);
    const int64_t threads = kArenaBytes / 16;
    Fill<<<static_cast<unsigned>(threads / 256), 256, 0, stream_>>>(arena_, kArenaBytes / 2, 0.02f,
                                                                    1);
    Check(cudaGetLastError(), "fill");
  }

  // The limits of this machine, to compare everything else with. Each process measures them anew:
  // boards and their clocks differ from run to run. The GPU is kept busy first, so that its clocks
  // are those of the other times. Shares refer to these limits, since a line is written when its
  // case ends, and a process that is cut never reaches the second measurement.
  void Limits() {
    Warm();
    empty_ = TimeAnew("empty kernel", 0, [&](int) { Empty<<<1, 32, 0, stream_>>>(); });
    begin_ = MeasureLimits("");
  }
  // Measures the limits again after all cases. Writes both, and the factor that turns shares into
  // shares of the better limit, which no kernel should exceed.
  void CloseLimits(const std::string& program) {
    const MachineLimits end = MeasureLimits(" at the end");
    std::string fields;
    const auto add = [&](const char* what, double at_begin, double at_end) {
      if (at_begin <= 0.0 || at_end <= 0.0) return;
      const auto field = [&](const char* of, double value) {
        fields += (fields.empty() ? "\"" : ", \"") + std::string(what) + of +
                  "\": " + std::to_string(value);
      };
      field("_begin", at_begin);
      field("_end", at_end);
      field("_end_over_begin", at_end / at_begin);
      field("_shares_times", at_begin / std::max(at_begin, at_end));
    };
    add("read_bytes_per_us", begin_.read, end.read);
    add("bf16_flops_per_us", begin_.bf16, end.bf16);
    add("fp8_flops_per_us", begin_.fp8, end.fp8);
    results_.Write("limits of " + program, fields);
  }

  cudaStream_t stream() const { return stream_; }
  // The limits of this process: bytes per microsecond, bfloat16 operations per microsecond,
  // microseconds.
  double read_bandwidth() const { return begin_.read; }
  double tensor_rate() const { return begin_.bf16; }
  double empty() const { return empty_; }
  const uint16_t* arena() const { return arena_; }
  // Whether a kernel's output was invalid.
  bool failed() const { return failed_; }

  // The arena through which all calls of the program rotate.
  bench::Rotation& rotation() { return rotation_; }

  // The same as TimeOf, but always measures.
  template <class Call>
  double TimeAnew(const std::string& name, int64_t bytes, Call call, int64_t flops = 0) {
    const MedianTime time = Median(stream_, call);
    results_.Write(name, FieldsOf(time, bytes, 0) + (flops > 0 ? Tflops(flops, time.us) : ""));
    return time.us;
  }

  // The median time of call(i), in microseconds. A call reads `bytes` and does `flops` operations
  // (0: unknown). If the file has the case already, returns its time. NaN: the case is skipped
  // (Results::Begin), or its output is invalid, which its line says.
  template <class Call>
  double TimeOf(const std::string& name, int64_t bytes, Call call, int64_t flops = 0) {
    return TimeOf(Timed{.name = name, .bytes = bytes, .flops = flops}, call);
  }
  template <class Call>
  double TimeOf(const Timed& timed, Call call) {
    return TimeOn(stream_, timed, call);
  }
  // The same for calls that queue on another stream. prepare(i) runs before each and is not timed.
  template <class Call, class Prepare = Nothing>
  double TimeOn(cudaStream_t stream, const Timed& timed, Call call, Prepare prepare = {}) {
    if (const double known = results_.Find(timed.name, "us"); known >= 0.0) return known;
    if (results_.Find(timed.name, "error") >= 0.0) {  // of an earlier run; it would be the same
      failed_ = true;
      return kNotMeasured;
    }
    if (!results_.Begin(timed.name)) return kNotMeasured;
    if (timed.output.count > 0) {
      Poison(stream, timed.output);
      prepare(0);
      call(0);
      if (const std::string fault = FaultOf(stream, timed.output); !fault.empty()) {
        std::cerr << timed.name << ": " << fault << '\n';
        results_.Write(timed.name, "\"error\": \"" + fault + '"');
        failed_ = true;
        return kNotMeasured;
      }
    }
    const MedianTime time = Median(stream, call, prepare);
    results_.Write(timed.name, FieldsOf(time, timed.bytes, timed.flops) + timed.fields);
    return time.us;
  }

  // The median time of a call in microseconds, as a node of a graph with `nodes` such calls in a
  // row. Behind them the graph has as many empty kernels; the line also has their time in the same
  // replays. call(i) queues on stream().
  template <class Call>
  double TimeOfNodes(const std::string& name, int64_t bytes, int nodes, Call call) {
    if (const double known = results_.Find(name, "us"); known >= 0.0) return known;
    if (!results_.Begin(name)) return kNotMeasured;
    call(0);  // what a first call sets up must not be a node
    NodeChain chain(stream_, nodes, call, [&] { Empty<<<1, 32, 0, stream_>>>(); });
    const NodeTimes time = chain.Times();
    results_.Write(name,
                   FieldsOf({time.call_us, time.ran_ahead}, bytes, 0) + ", \"nodes\": " +
                       std::to_string(nodes) + ", \"empty_us\": " + std::to_string(time.empty_us) +
                       ", \"us_beside_empty\": " + std::to_string(time.call_us - time.empty_us) +
                       (time.by_replays ? ", \"by_replays\": 1" : ""));
    return time.call_us;
  }

  // Two shares for operations done in this time: of the measured peak of the tensor cores, and of
  // the peak that their clock allows.
  std::string SharesOfPeak(double flops, double us) const {
    std::string fields;
    if (begin_.bf16 > 0.0) {
      fields += "\"share_of_peak\": " + std::to_string(flops / us / begin_.bf16) + ", ";
    }
    return fields + "\"share_of_computed_peak\": " + std::to_string(flops / us / ComputedPeak());
  }

 private:
  struct MachineLimits {
    double read = 0.0;
    double bf16 = 0.0;
    double fp8 = 0.0;
  };

  void QueueRead(int64_t bytes, int i) {
    const auto* const from = reinterpret_cast<const uint4*>(arena_) + i % 4 * (bytes / 16);
    Read<<<static_cast<unsigned>(16 * DeviceMultiprocessors()), 512, 0, stream_>>>(from, bytes / 16,
                                                                                   ignored_);
  }

  // Keeps the GPU busy with reads and products for some time.
  void Warm() {
    constexpr auto kBusy = std::chrono::milliseconds(400);
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < kBusy) {
      for (int i = 0; i < 8; ++i) {
        QueueRead(kReadBytes, i);
        StartProducts(stream_, DType::kBFloat16, reinterpret_cast<float*>(ignored_));
      }
      Check(cudaStreamSynchronize(stream_), "reads and products");
    }
  }

  MachineLimits MeasureLimits(const std::string& when) {
    MachineLimits limits;
    const double read =
        TimeAnew("read 1 GiB" + when, kReadBytes, [&](int i) { QueueRead(kReadBytes, i); });
    limits.read = static_cast<double>(kReadBytes) / (read - empty_);
    const auto products = [&](DType type, const char* name) {
      auto* const out = reinterpret_cast<float*>(ignored_);
      const int64_t flops = StartProducts(stream_, type, out);
      if (flops == 0) return 0.0;  // this GPU has no products of that format
      const double us = TimeAnew(
          std::string("tensor cores, ") + name + " by " + InstructionOfProducts() + when, 0,
          [&](int) { StartProducts(stream_, type, out); }, flops);
      return static_cast<double>(flops) / (us - empty_);
    };
    limits.bf16 = products(DType::kBFloat16, "bf16");
    limits.fp8 = products(DType::kFloat8E4M3, "fp8");
    return limits;
  }

  static std::string Tflops(int64_t flops, double us) {
    return ", \"tflops\": " + std::to_string(static_cast<double>(flops) / us / 1e6);
  }
  std::string FieldsOf(const MedianTime& time, int64_t bytes, int64_t flops) const {
    std::string fields =
        "\"us\": " + std::to_string(time.us) + ", \"bytes\": " + std::to_string(bytes);
    if (bytes > 0 && begin_.read > 0.0) {
      fields += ", \"share_of_read\": " +
                std::to_string(static_cast<double>(bytes) / time.us / begin_.read);
    }
    if (flops > 0) {
      fields += Tflops(flops, time.us) + ", " + SharesOfPeak(static_cast<double>(flops), time.us);
    }
    // The GPU may have waited for the host's launches.
    if (!time.ran_ahead) fields += ", \"host_too_slow\": 1";
    return fields;
  }

  static constexpr int64_t kReadBytes = int64_t{1} << 30;

  Results& results_;
  cudaStream_t stream_ = nullptr;
  uint16_t* arena_ = nullptr;
  uint32_t* ignored_ = nullptr;  // kernels here may write to it
  bench::Rotation rotation_{kArenaBytes};
  MachineLimits begin_;
  double empty_ = 0.0;
  bool failed_ = false;
};

// Calls run(bench, results) with the file of results that the command line names.
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
  bench.CloseLimits(std::filesystem::path(argv[0]).filename().string());
  return bench.failed() ? 1 : 0;
}

}  // namespace janus::kernels::cuda
