// One decode layer, attention and experts, recorded in a graph as the instances start it: its time
// beside the sum of what its operations must read or compute at the least, and beside the sum of
// its kernels' own times; between the two sums and the graph's time are the gaps. Of shapes of
// DeepSeek-V2-Lite and Mixtral with all experts, and of DeepSeek-V3 with the 32 experts of one of
// eight instances, in bfloat16. One JSON line per case, and one for each of its kernels, in the
// file that --results names, flushed when the case ends; a case that stands there is not run again.
//
// Layers of the model take turns, so that weights come from memory: each time, medians of 30, is of
// another layer than the one before, or of one whose weights pass the cache. A kernel's own time is
// between two events round it, in the order of the layer, less what an empty kernel takes there;
// before, the GPU is kept busy until the host has queued all.

#include <cxxabi.h>

#include <map>

#include "bench/gpu/decode_layer.h"
#include "bench/gpu/device_tensors.h"
#include "bench/gpu/gpu_bench.h"
#include "bench/gpu/shapes.h"
#include "kernels/device/cuda_context.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {
namespace {

using kernels::cuda::Check;
using kernels::cuda::GpuBench;
using kernels::cuda::Results;

struct Case {
  const char* name;
  ModelDescription model;  // its layers take turns
  int instances;           // of experts, with so many each; the first one's are computed
  std::vector<std::pair<int, int>> loads;  // rows, context
};

std::vector<Case> Cases() {
  return {{"DeepSeek-V2-Lite",
           OfMoeLayers(DeepSeekV2Lite(), 4),
           1,
           {{64, 2048}, {1, 2048}, {256, 2048}}},
          {"Mixtral", Mixtral(2), 1, {{64, 2048}, {1, 2048}, {256, 2048}}},
          {"DeepSeek-V3, 32 of 256 experts",
           OfMoeLayers(DeepSeekV3(), 1),
           8,
           {{64, 4096}, {256, 4096}}}};
}

// "FastLinearKernel" of what nvcc calls Run<FastLinearKernel<...>>.
std::string NameOf(const void* function) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, function) != cudaSuccess || mangled == nullptr) return "unknown";
  int status = 0;
  char* const plain = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 ? plain : mangled;
  std::free(plain);
  const size_t begin = name.find("Run<");
  if (begin == std::string::npos) return name;
  const size_t end = name.find_first_of("<>", begin + 4);
  name = name.substr(begin + 4, end - begin - 4);
  const size_t scope = name.rfind("::");
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

// The kernels of a layer, each to be started alone, as long as it lives.
class KernelsOf {
 public:
  KernelsOf(DecodeLayer& layer, int index) {
    cudaStream_t stream = nullptr;
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "graph, begin");
    Check(layer.Start({.device = kernels::Device::kCuda, .native = stream}, index));
    Check(cudaStreamEndCapture(stream, &graph_), "graph, end");
    cudaStreamDestroy(stream);
    size_t count = 0;
    Check(cudaGraphGetNodes(graph_, nullptr, &count), "graph, nodes");
    std::vector<cudaGraphNode_t> nodes(count);
    Check(cudaGraphGetNodes(graph_, nodes.data(), &count), "graph, nodes");
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      Check(cudaGraphNodeGetType(node, &type), "graph, node");
      if (type != cudaGraphNodeTypeKernel) continue;
      Check(cudaGraphKernelNodeGetParams(node, &of.emplace_back()), "graph, kernel");
    }
  }
  ~KernelsOf() { cudaGraphDestroy(graph_); }
  KernelsOf(const KernelsOf&) = delete;
  KernelsOf& operator=(const KernelsOf&) = delete;

  std::vector<cudaKernelNodeParams> of;

 private:
  cudaGraph_t graph_ = nullptr;
};

// Medians over turns of times between two events, in microseconds, what has a place in a turn each.
class TurnTimes {
 public:
  explicit TurnTimes(cudaStream_t stream) : stream_(stream) {}
  ~TurnTimes() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  TurnTimes(const TurnTimes&) = delete;
  TurnTimes& operator=(const TurnTimes&) = delete;

  template <class Call>
  void Add(size_t place, Call call) {
    for (int end = 0; end < 2; ++end) {
      Check(cudaEventCreate(&events_.emplace_back()), "event");
      Check(cudaEventRecord(events_.back(), stream_), "event");
      if (end == 0) call();
    }
    places_.push_back(place);
  }
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
  std::vector<cudaEvent_t> events_;  // two each
  std::vector<size_t> places_;
};

class LayerBench {
 public:
  LayerBench(GpuBench& bench, Results& results) : bench_(bench), results_(results) {
    Result<std::unique_ptr<kernels::Context>> context = kernels::MakeCudaContext();
    Check(context.status());
    context_ = *std::move(context);
    stream_ = static_cast<cudaStream_t>(context_->stream().native);
  }

  void Run(const Case& c) {
    if (AllThere(c)) return;
    DeviceTensors tensors(*context_, 1);
    const dataplane::HeldModel held = RandomModel(c.model, tensors);
    Check(context_->Wait());
    const std::vector<int> slots(static_cast<size_t>(c.instances),
                                 c.model.moe.experts / c.instances);
    const Topology topology =
        dataplane::MakeTopology(1, slots, c.model.moe_layers(), c.model.moe.experts);
    for (const auto& [rows, context_tokens] : c.loads) {
      if (results_.Find(LineOf(c, rows, context_tokens), "us") >= 0.0) continue;
      DecodeLayer layer(*context_, held, topology, Rank{0}, rows, context_tokens);
      Check(context_->TakeFailure());
      Time(c, layer, rows, context_tokens);
    }
  }

 private:
  static std::string LineOf(const Case& c, int rows, int context_tokens) {
    return std::string(c.name) + " layer in a graph, " + std::to_string(rows) + " rows, context " +
           std::to_string(context_tokens);
  }
  bool AllThere(const Case& c) const {
    return std::ranges::all_of(c.loads, [&](const auto& load) {
      return results_.Find(LineOf(c, load.first, load.second), "us") >= 0.0;
    });
  }

  void Time(const Case& c, DecodeLayer& layer, int rows, int context_tokens) {
    const int layers = c.model.layers;
    const std::vector<float> zeros(static_cast<size_t>(rows) * static_cast<size_t>(c.model.hidden),
                                   0.25f);
    Check(layer.SetResidual(zeros));
    Check(layer.Start(context_->stream(), 0));
    const DecodeLayer::Load load = *layer.load();
    std::vector<std::unique_ptr<kernels::Graph>> graphs;
    std::vector<std::unique_ptr<KernelsOf>> kernels;
    for (int l = 0; l < layers; ++l) {
      graphs.push_back(
          *context_->RecordGraph([&](const kernels::Stream& on) { return layer.Start(on, l); }));
      kernels.push_back(std::make_unique<KernelsOf>(layer, l));
    }
    TurnTimes whole(stream_);
    for (int turn = -3; turn < kernels::cuda::kCalls; ++turn) {
      kernels::Graph& graph = *graphs[static_cast<size_t>(turn + 3) % graphs.size()];
      if (turn < 0) {
        Check(context_->Replay(graph));
        continue;
      }
      whole.Add(0, [&] { Check(context_->Replay(graph)); });
    }
    const double graph_us = whole.Medians()[0];
    const auto own = OwnTimes(kernels);
    Write(c, rows, context_tokens, load, graph_us, kernels[0]->of, own);
  }

  // By kernel; last an empty one in its place.
  std::map<size_t, double> OwnTimes(const std::vector<std::unique_ptr<KernelsOf>>& kernels) {
    const size_t count = kernels[0]->of.size();
    TurnTimes own(stream_);
    for (int turn = 0; turn < kernels::cuda::kCalls; ++turn) {
      KeepBusy();
      const KernelsOf& all = *kernels[static_cast<size_t>(turn) % kernels.size()];
      for (size_t i = 0; i < count; ++i) {
        const cudaKernelNodeParams& k = all.of[i];
        own.Add(i, [&] {
          Check(cudaLaunchKernel(k.func, k.gridDim, k.blockDim, k.kernelParams, k.sharedMemBytes,
                                 stream_),
                "launch");
        });
      }
      own.Add(count, [&] { kernels::cuda::Empty<<<1, 32, 0, stream_>>>(); });
    }
    return own.Medians();
  }

  // For about a millisecond.
  void KeepBusy() {
    const auto* const from = reinterpret_cast<const uint4*>(bench_.arena());
    kernels::cuda::Read<<<132 * 16, 512, 0, stream_>>>(
        from, kernels::cuda::kArenaBytes / 16,
        reinterpret_cast<uint32_t*>(const_cast<uint4*>(from)));
  }

  void Write(const Case& c, int rows, int context_tokens, const DecodeLayer::Load& load,
             double graph_us, const std::vector<cudaKernelNodeParams>& kernels,
             const std::map<size_t, double>& own) {
    const std::string line = LineOf(c, rows, context_tokens);
    const double empty = own.at(kernels.size());
    double sum = 0.0;
    for (size_t i = 0; i < kernels.size(); ++i) {
      const double us = std::max(own.at(i) - empty, 0.0);
      sum += us;
      results_.Write(line + ", kernel " + std::to_string(i) + " " + NameOf(kernels[i].func),
                     "\"own_us\": " + std::to_string(us) +
                         ", \"blocks\": " + std::to_string(kernels[i].gridDim.x));
    }
    const std::vector<OperationLimit> limits = LimitsOf(c.model, rows, context_tokens, load);
    const double bytes_per_us = bench_.read_bandwidth();
    const double flops_per_us = kernels::cuda::PeakFlops();
    for (const OperationLimit& limit : limits) {
      results_.Write(
          line + ", limit of " + limit.name,
          "\"limit_us\": " + std::to_string(SumOfLimits({limit}, bytes_per_us, flops_per_us)) +
              ", \"bytes\": " + std::to_string(limit.bytes) +
              ", \"flops\": " + std::to_string(limit.flops));
    }
    const double least = SumOfLimits(limits, bytes_per_us, flops_per_us);
    // Last: who finds it finds all.
    results_.Write(line, "\"us\": " + std::to_string(graph_us) + ", \"limits_us\": " +
                             std::to_string(least) + ", \"kernels_us\": " + std::to_string(sum) +
                             ", \"kernels\": " + std::to_string(kernels.size()) +
                             ", \"gaps_us\": " + std::to_string(graph_us - sum) +
                             ", \"share_of_limits\": " + std::to_string(least / graph_us) +
                             ", \"experts\": " + std::to_string(load.experts) +
                             ", \"expert_rows\": " + std::to_string(load.rows));
  }

  GpuBench& bench_;
  Results& results_;
  std::unique_ptr<kernels::Context> context_;
  cudaStream_t stream_ = nullptr;
};

void RunAll(GpuBench& gpu, Results& results) {
  LayerBench bench(gpu, results);
  for (const Case& c : Cases()) bench.Run(c);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  return janus::kernels::cuda::BenchMain(argc, argv, janus::bench::RunAll);
}
