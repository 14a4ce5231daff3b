#pragma once

// What programs that time kernels on a GPU share: its memory, a file of results that a later run
// goes on with, medians (bench/gpu/stream_times.h), and the limits of the same machine that times
// are held against.

#include <cuda_runtime.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "bench/gpu/results.h"
#include "bench/gpu/stream_times.h"
#include "common/dtype.h"
#include "common/philox.h"
#include "common/status.h"

namespace janus::kernels::cuda {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();
inline constexpr int64_t kArenaBytes = int64_t{4} << 30;

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

// The median time of call(i), each after prepare(i), which is not timed, in microseconds.
struct Nothing {
  void operator()(int /*call*/) const {}
};
struct MedianTime {
  double us = 0.0;
  bool ran_ahead = true;  // as Medians has it
};
template <class Call, class Prepare = Nothing>
MedianTime Median(cudaStream_t stream, Call call, Prepare prepare = {}) {
  for (int i = 0; i < 3; ++i) {
    prepare(i);
    call(i);
  }
  const Medians medians = MediansOf(stream, kCalls, [&](StreamTimes& times, int i) {
    prepare(i + 3);
    times.Add(0, [&] { call(i + 3); });
  });
  return {medians.us.at(0), medians.ran_ahead};
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

  // What everything else is held against: measured by each process anew, since boards and their
  // clocks differ from run to run.
  void Limits() {
    empty_ = TimeAnew("empty kernel", 0, [&](int) { Empty<<<1, 32, 0, stream_>>>(); });
    auto* const out = Allocate<uint32_t>(1);
    const int64_t bytes = int64_t{1} << 30;
    const double read = TimeAnew("read 1 GiB", bytes, [&](int i) {
      const auto* const from = reinterpret_cast<const uint4*>(arena_) + i % 4 * (bytes / 16);
      Read<<<132 * 16, 512, 0, stream_>>>(from, bytes / 16, out);
    });
    read_bandwidth_ = static_cast<double>(bytes) / (read - empty_);
    cudaFree(out);
  }

  cudaStream_t stream() const { return stream_; }
  // Of this process, in bytes a microsecond and in microseconds.
  double read_bandwidth() const { return read_bandwidth_; }
  double empty() const { return empty_; }
  const uint16_t* arena() const { return arena_; }

  // As TimeOf, whatever the results have already.
  template <class Call>
  double TimeAnew(const std::string& name, int64_t bytes, Call call) {
    const MedianTime time = Median(stream_, call);
    results_.Write(name, FieldsOf(time, bytes, 0));
    return time.us;
  }

  // The median time of call(i), which reads so many bytes and is so many operations (0: not told),
  // in microseconds; as the results have it already, if they do. NaN: it was left out
  // (Results::Begin).
  template <class Call>
  double TimeOf(const std::string& name, int64_t bytes, Call call, int64_t flops = 0) {
    return TimeOn(stream_, name, bytes, call, flops);
  }
  // The same of calls that queue on another stream, each after prepare(i), which is not timed.
  template <class Call, class Prepare = Nothing>
  double TimeOn(cudaStream_t stream, const std::string& name, int64_t bytes, Call call,
                int64_t flops, Prepare prepare = {}) {
    if (const double known = results_.Find(name, "us"); known >= 0.0) return known;
    if (!results_.Begin(name)) return kNotMeasured;
    const MedianTime time = Median(stream, call, prepare);
    results_.Write(name, FieldsOf(time, bytes, flops));
    return time.us;
  }

  // The median time of a call as a node of a graph of so many, each after the one before, in
  // microseconds: a replay's, which is timed, over their number. Beside it what an empty kernel
  // takes in its place. call(i) queues on stream().
  template <class Call>
  double TimeOfNodes(const std::string& name, int64_t bytes, int nodes, Call call) {
    if (const double known = results_.Find(name, "us"); known >= 0.0) return known;
    if (!results_.Begin(name)) return kNotMeasured;
    const double empty = EmptyNode(nodes);
    const MedianTime time = NodeTime(nodes, call);
    results_.Write(name, FieldsOf(time, bytes, 0) + ", \"nodes\": " + std::to_string(nodes) +
                             ", \"empty_us\": " + std::to_string(empty) +
                             ", \"us_beside_empty\": " + std::to_string(time.us - empty));
    return time.us;
  }

 private:
  template <class Call>
  MedianTime NodeTime(int nodes, Call call) {
    call(0);  // what a first call sets up is no node
    NodeChain chain(stream_, nodes, call);
    MedianTime time = Median(stream_, [&](int) { chain.Launch(); });
    time.us /= nodes;
    return time;
  }
  double EmptyNode(int nodes) {
    const std::string name = "empty kernel, a node of " + std::to_string(nodes);
    if (const auto known = empty_nodes_.find(nodes); known != empty_nodes_.end()) {
      return known->second;
    }
    const MedianTime time = NodeTime(nodes, [&](int) { Empty<<<1, 32, 0, stream_>>>(); });
    empty_nodes_[nodes] = time.us;
    results_.Write(name, FieldsOf(time, 0, 0));
    return time.us;
  }
  std::string FieldsOf(const MedianTime& time, int64_t bytes, int64_t flops) const {
    std::string fields =
        "\"us\": " + std::to_string(time.us) + ", \"bytes\": " + std::to_string(bytes);
    if (bytes > 0 && read_bandwidth_ > 0.0) {
      fields += ", \"share_of_read\": " +
                std::to_string(static_cast<double>(bytes) / time.us / read_bandwidth_);
    }
    if (flops > 0) {
      fields += ", \"tflops\": " + std::to_string(static_cast<double>(flops) / time.us / 1e6);
    }
    // Then the GPU may have waited for the host's launches.
    if (!time.ran_ahead) fields += ", \"host_too_slow\": 1";
    return fields;
  }

  Results& results_;
  cudaStream_t stream_ = nullptr;
  uint16_t* arena_ = nullptr;
  double read_bandwidth_ = 0.0;
  double empty_ = 0.0;
  std::map<int, double> empty_nodes_;  // by how many nodes a graph has
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
