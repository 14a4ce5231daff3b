#pragma once

// Times what a program queues on a stream of a GPU: between two events round it, behind a kernel
// that keeps the GPU busy until the host has queued the whole sample. Short calls are then not
// limited by the host's launches, and all times are comparable.

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

// One thread that reads no memory: the cache keeps its contents.
static __global__ void Spin(int64_t cycles) {
  const int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

// The first spin takes about a quarter of a millisecond. If the host needs longer, the spin is
// multiplied by four, up to about 15 milliseconds.
inline constexpr int64_t kSpinCycles = 400'000;
inline constexpr int64_t kMostSpinCycles = kSpinCycles << 6;

// Samples and the times of their parts. Each part has a number, its place.
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

  // queue() queues a sample, and calls Add for the parts that are timed.
  template <class Queue>
  void Sample(Queue queue) {
    Spin<<<1, 1, 0, stream_>>>(spin_cycles_);
    Check(cudaGetLastError(), "spin");
    Check(cudaEventRecord(spun_, stream_), "event");
    queue();
    const cudaError_t spun = cudaEventQuery(spun_);
    if (spun == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next launch would seem to have failed
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

  // Whether the GPU was still in its spin each time the host had queued a sample.
  bool ran_ahead() const { return ran_ahead_; }
  // Median times by place, in microseconds.
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
  std::vector<cudaEvent_t> events_;  // two for each part
  std::vector<size_t> places_;
};

struct Medians {
  std::map<size_t, double> us;  // by place
  bool ran_ahead = true;        // false: the host was too slow even for the longest spin
};

// Medians of `samples` samples that queue(times, i) queues. If the host was too slow for one, all
// are repeated behind a longer spin.
template <class Queue>
Medians MediansOf(cudaStream_t stream, int samples, Queue queue) {
  for (int64_t cycles = kSpinCycles;; cycles *= 4) {
    StreamTimes times(stream, cycles);
    for (int i = 0; i < samples; ++i) times.Sample([&] { queue(times, i); });
    Medians medians{times.Medians(), times.ran_ahead()};
    if (medians.ran_ahead || cycles >= kMostSpinCycles) return medians;
  }
}

// Times of a node, in microseconds.
struct NodeTimes {
  double call_us = 0.0;
  double empty_us = 0.0;
  bool ran_ahead = true;    // see Medians; events in the graph do not wait for the host
  bool by_replays = false;  // events in the graph could not be read: see NodeChain
};

// Calls on a stream as nodes of one graph, one after the other. As many other nodes, empty(),
// follow; events in the graph separate the two parts, so that both are timed in the same replays.
// If the runtime cannot read such events, it times the whole graph, and a graph with only the
// others.
class NodeChain {
 public:
  template <class Call, class Empty>
  NodeChain(cudaStream_t stream, int nodes, Call call, Empty empty)
      : stream_(stream), nodes_(nodes) {
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "event");
    Begin();
    Mark(0);
    for (int i = 0; i < nodes; ++i) call(i);
    Mark(1);
    for (int i = 0; i < nodes; ++i) empty();
    Mark(2);
    both_ = End();
    Begin();
    for (int i = 0; i < nodes; ++i) empty();
    empties_ = End();
  }
  ~NodeChain() {
    cudaGraphExecDestroy(both_);
    cudaGraphExecDestroy(empties_);
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  NodeChain(const NodeChain&) = delete;
  NodeChain& operator=(const NodeChain&) = delete;

  // Medians over replays.
  NodeTimes Times() {
    std::vector<float> calls, empties;
    for (int i = 0; i < kCalls + 3; ++i) {
      Spin<<<1, 1, 0, stream_>>>(kSpinCycles);  // no sample begins on an idle GPU
      Check(cudaGetLastError(), "spin");
      Check(cudaGraphLaunch(both_, stream_), "graph, launch");
      Check(cudaStreamSynchronize(stream_), "graph");
      const float call = Between(0), empty = Between(1);
      if (call <= 0.0f || empty <= 0.0f) return ByReplays();
      if (i < 3) continue;
      calls.push_back(call);
      empties.push_back(empty);
    }
    return {.call_us = MedianOf(calls) / nodes_, .empty_us = MedianOf(empties) / nodes_};
  }

 private:
  void Begin() {
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "graph, begin");
  }
  void Mark(int event) {
    Check(cudaEventRecordWithFlags(events_[event], stream_, cudaEventRecordExternal),
          "graph, event");
  }
  cudaGraphExec_t End() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    Check(cudaStreamEndCapture(stream_, &graph), "graph, end");
    Check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    cudaGraphDestroy(graph);
    Check(cudaGraphUpload(exec, stream_), "graph, upload");
    return exec;
  }
  // Milliseconds from one event to the next; 0: unknown.
  float Between(int event) const {
    float milliseconds = 0.0f;
    if (cudaEventElapsedTime(&milliseconds, events_[event], events_[event + 1]) == cudaSuccess) {
      return milliseconds;
    }
    cudaGetLastError();  // or the next launch would seem to have failed
    return 0.0f;
  }
  static double MedianOf(std::vector<float>& times) {
    std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
    return 1000.0 * times[times.size() / 2];
  }
  NodeTimes ByReplays() {
    const Medians medians = MediansOf(stream_, kCalls, [&](StreamTimes& times, int) {
      times.Add(0, [&] { Check(cudaGraphLaunch(both_, stream_), "graph, launch"); });
      times.Add(1, [&] { Check(cudaGraphLaunch(empties_, stream_), "graph, launch"); });
    });
    const double empties = medians.us.at(1);
    return {.call_us = (medians.us.at(0) - empties) / nodes_,
            .empty_us = empties / nodes_,
            .ran_ahead = medians.ran_ahead,
            .by_replays = true};
  }

  const cudaStream_t stream_;
  const int nodes_;
  cudaEvent_t events_[3] = {};
  cudaGraphExec_t both_ = nullptr;
  cudaGraphExec_t empties_ = nullptr;
};

}  // namespace janus::kernels::cuda
