#pragma once

// How programs here time what they queue on a stream of a GPU: between two events round it, behind
// a kernel that keeps the GPU busy until the host has queued all of a sample. What is short is not
// bound by the host's launches then, and what is compared was timed in one way.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <vector>

namespace janus::kernels::cuda {

inline constexpr int kCalls = 30;  // samples of a median

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::cerr << what << ": " << cudaGetErrorString(error) << '\n';
  std::exit(3);
}

// One thread that reads no memory: what lies in the cache stays there.
static __global__ void Spin(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

// At first a quarter of a millisecond or so, four times that as often as the host needs longer, up
// to some 15 milliseconds.
inline constexpr int64_t kSpinCycles = 400'000;
inline constexpr int64_t kMostSpinCycles = kSpinCycles << 6;

// Samples and the times of their parts; each part has a place.
class StreamTimes {
 public:
  StreamTimes(cudaStream_t stream, int64_t spin_cycles)
      : stream_(stream), spin_cycles_(spin_cycles) {
    Check(cudaEventCreateWithFlags(&spun_, cudaEventDisableTiming), "event");
  }
  ~StreamTimes() {
    cudaEventDestroy(spun_);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  StreamTimes(const StreamTimes&) = delete;
  StreamTimes& operator=(const StreamTimes&) = delete;

  // queue() queues a sample, those of its parts that are timed within Add.
  template <class Queue>
  void Sample(Queue queue) {
    Spin<<<1, 1, 0, stream_>>>(spin_cycles_);
    Check(cudaGetLastError(), "spin");
    Check(cudaEventRecord(spun_, stream_), "event");
    queue();
    const cudaError_t spun = cudaEventQuery(spun_);
    if (spun == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // else the next launch would seem to have failed
      return;
    }
    Check(spun, "spin");
    ran_ahead_ = false;
  }
  template <class Call>
  void Add(size_t place, Call call) {
    for (int end = 0; end < 2; ++end) {
      Check(cudaEventCreate(&events_.emplace_back()), "event");
      Check(cudaEventRecord(events_.back(), stream_), "event");
      if (end == 0) call();
    }
    places_.push_back(place);
  }

  // Whether the GPU was busy with its spin when the host had queued a sample, each time.
  bool ran_ahead() const { return ran_ahead_; }
  // By place, in microseconds.
  std::map<size_t, double> Medians() const {
    Check(cudaStreamSynchronize(stream_), "the calls");
    std::map<size_t, std::vector<float>> times;
    for (size_t i = 0; i < places_.size(); ++i) {
      float milliseconds = 0.0f;
      Check(cudaEventElapsedTime(&milliseconds, events_[2 * i], events_[2 * i + 1]), "event");
      times[places_[i]].push_back(milliseconds);
    }
    std::map<size_t, double> medians;
    for (auto& [place, of] : times) {
      std::ranges::nth_element(of, of.begin() + static_cast<ptrdiff_t>(of.size() / 2));
      medians[place] = 1000.0 * of[of.size() / 2];
    }
    return medians;
  }

 private:
  const cudaStream_t stream_;
  const int64_t spin_cycles_;
  cudaEvent_t spun_ = nullptr;
  bool ran_ahead_ = true;
  std::vector<cudaEvent_t> events_;  // two a part
  std::vector<size_t> places_;
};

struct Medians {
  std::map<size_t, double> us;  // by place
  bool ran_ahead = true;        // else the host was too slow even for the longest spin
};

// Of so many samples that queue(times, i) queues: all anew behind a longer spin where the host was
// too slow for one of them.
template <class Queue>
Medians MediansOf(cudaStream_t stream, int samples, Queue queue) {
  for (int64_t cycles = kSpinCycles;; cycles *= 4) {
    StreamTimes times(stream, cycles);
    for (int i = 0; i < samples; ++i) times.Sample([&] { queue(times, i); });
    Medians medians{times.Medians(), times.ran_ahead()};
    if (medians.ran_ahead || cycles >= kMostSpinCycles) return medians;
  }
}

// Calls on a stream as nodes of one graph, each after the one before.
class NodeChain {
 public:
  template <class Call>
  NodeChain(cudaStream_t stream, int nodes, Call call) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "graph, begin");
    for (int i = 0; i < nodes; ++i) call(i);
    Check(cudaStreamEndCapture(stream, &graph), "graph, end");
    Check(cudaGraphInstantiate(&exec_, graph, 0), "graph");
    cudaGraphDestroy(graph);
    Check(cudaGraphUpload(exec_, stream), "graph, upload");
  }
  ~NodeChain() { cudaGraphExecDestroy(exec_); }
  NodeChain(const NodeChain&) = delete;
  NodeChain& operator=(const NodeChain&) = delete;

  void Launch() { Check(cudaGraphLaunch(exec_, stream_), "graph, launch"); }

 private:
  const cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace janus::kernels::cuda
