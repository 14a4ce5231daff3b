// One decode layer, attention and experts, recorded in a graph as the instances launch it. Each
// line has the graph's time, the sum of what its operations must at least read or compute, and the
// sum of its kernels' separate times. The differences are the gaps. Shapes: DeepSeek-V2-Lite and
// Mixtral with all experts, and DeepSeek-V3 with the 32 experts of one of eight instances, in
// bfloat16. It adds one JSON line per case, and one for each of its kernels, to the file that
// --results names, flushed when the case ends. A case that is in the file is not run again.
//
// Rows have random residuals, the same each time, so that they activate experts as rows of requests
// do. The layers of the model take turns, so that weights come from memory: each run uses another
// layer than the one before, or a layer larger than the cache. A line has the mean over the layers,
// for the medians and for the limits; a layer's limits count the experts that it activates. A
// kernel's time is between two events round it, in the order of the layer, minus the time of an
// empty kernel there (bench/gpu/stream_times.h).
//
// One more line has the whole work of DeepSeek-V3's expert instance in a round of 128 rows.

#include <cxxabi.h>

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
using kernels::cuda::Medians;
using kernels::cuda::Results;
using kernels::cuda::StreamTimes;

struct Case {
  const char* name;
  ModelDescription model;                  // its layers take turns
  int instances;                           // of experts, with equal shares; the first is computed
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

// "FastLinearKernel" for what nvcc calls Run<FastLinearKernel<...>>.
std::string NameOf(const void* function) {
  const char* mangled = nullptr;
  if (cudaFuncGetName(&mangled, function) != cudaSuccess || mangled == nullptr) {
    cudaGetLastError();  // or the next check would report this error
    return "unknown";
  }
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

// The kernels of a layer, each of which can be launched alone while this lives. Also counts the
// other nodes of its graph, which are only in the graph's time.
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
      if (type != cudaGraphNodeTypeKernel) {
        ++others;
        continue;
      }
      Check(cudaGraphKernelNodeGetParams(node, &of.emplace_back()), "graph, kernel");
    }
  }
  ~KernelsOf() { cudaGraphDestroy(graph_); }
  KernelsOf(const KernelsOf&) = delete;
  KernelsOf& operator=(const KernelsOf&) = delete;

  std::vector<cudaKernelNodeParams> of;
  int others = 0;

 private:
  cudaGraph_t graph_ = nullptr;
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
      if (!results_.Begin(LineOf(c, rows, context_tokens))) continue;
      DecodeLayer layer(*context_, held, topology, Rank{0}, rows, context_tokens);
      Check(context_->TakeFailure());
      Time(c, layer, rows, context_tokens);
    }
    if (c.instances > 1) TimeExperts(c, held, topology);
  }

 private:
  static constexpr const char* kExpertsLine =
      "DeepSeek-V3 bf16, whole expert layer of 32 of 256 experts, 128 rows";

  static std::string LineOf(const Case& c, int rows, int context_tokens) {
    return std::string(c.name) + " layer in a graph, " + std::to_string(rows) + " rows, context " +
           std::to_string(context_tokens);
  }
  bool AllThere(const Case& c) const {
    const bool are_loads_there = std::ranges::all_of(c.loads, [&](const auto& load) {
      return results_.Find(LineOf(c, load.first, load.second), "us") >= 0.0;
    });
    return are_loads_there && (c.instances == 1 || results_.Find(kExpertsLine, "us") >= 0.0);
  }

  // All that the expert instance computes of a round: rows are there, contributions get there. The
  // least time is that of a read of the weights that the rows activate, which no cache holds.
  void TimeExperts(const Case& c, const dataplane::HeldModel& held, const Topology& topology) {
    constexpr int kRows = 128, kContext = 64;
    if (results_.Find(kExpertsLine, "us") >= 0.0 || !results_.Begin(kExpertsLine)) return;
    DecodeLayer layer(*context_, held, topology, Rank{0}, kRows, kContext);
    Check(context_->TakeFailure());
    Check(layer.SetResidual(RandomResidual(kRows, c.model.hidden, 1)));
    Check(layer.Attend(context_->stream(), 0));
    Check(layer.Contribute(context_->stream(), 0));
    const Result<DecodeLayer::Load> load = layer.load();
    Check(load.status());
    const auto graph =
        *context_->RecordGraph([&](const kernels::Stream& on) { return layer.Contribute(on, 0); });
    Check(context_->Replay(*graph));
    const int64_t bytes = int64_t{load->experts} * 3 * c.model.moe.intermediate * c.model.hidden *
                          SizeOf(DType::kBFloat16);
    CheckRotates(bytes);
    const Medians whole = kernels::cuda::MediansOf(
        stream_, kernels::cuda::kCalls,
        [&](StreamTimes& times, int) { times.Add(0, [&] { Check(context_->Replay(*graph)); }); });
    const double us = whole.us.at(0);
    std::string fields = "\"us\": " + std::to_string(us) + ", \"bytes\": " + std::to_string(bytes) +
                         ", \"experts\": " + std::to_string(load->experts) +
                         ", \"expert_rows\": " + std::to_string(load->rows) + ", \"over_read\": " +
                         std::to_string(us * bench_.read_bandwidth() / static_cast<double>(bytes));
    if (!whole.ran_ahead) fields += ", \"host_too_slow\": 1";
    results_.Write(kExpertsLine, fields);
  }

  // Times and limits are for the same layers: one load each, then the mean over all.
  void Time(const Case& c, DecodeLayer& layer, int rows, int context_tokens) {
    Check(layer.SetResidual(RandomResidual(rows, c.model.hidden, 1)));
    Layers layers;
    for (int l = 0; l < c.model.layers; ++l) {
      Check(layer.ResetResidual());
      Check(layer.Start(context_->stream(), l));
      Result<DecodeLayer::Load> load = layer.load();
      Check(load.status());
      layers.loads.push_back(*load);
      layers.limits.push_back(LimitsOf(c.model, rows, context_tokens, *load));
      layers.graphs.push_back(
          *context_->RecordGraph([&](const kernels::Stream& on) { return layer.Start(on, l); }));
      layers.kernels.push_back(std::make_unique<KernelsOf>(layer, l));
    }
    int64_t bytes = 0;  // between two runs of the same layer
    for (const std::vector<OperationLimit>& limits : layers.limits) {
      for (const OperationLimit& limit : limits) bytes += limit.bytes;
    }
    CheckRotates(bytes);
    const Medians whole = InTurns(layer, layers, [&](StreamTimes& times, size_t l) {
      times.Add(l, [&] { Check(context_->Replay(*layers.graphs[l])); });
    });
    // For each layer: its kernels, then an empty kernel in their place.
    const size_t count = layers.kernels[0]->of.size();
    const Medians own = InTurns(layer, layers, [&](StreamTimes& times, size_t l) {
      for (size_t i = 0; i < count; ++i) {
        const cudaKernelNodeParams& k = layers.kernels[l]->of[i];
        times.Add(l * (count + 1) + i, [&] {
          Check(cudaLaunchKernel(k.func, k.gridDim, k.blockDim, k.kernelParams, k.sharedMemBytes,
                                 stream_),
                "launch");
        });
      }
      times.Add(l * (count + 1) + count, [&] { kernels::cuda::Empty<<<1, 32, 0, stream_>>>(); });
    });
    Write(c, LineOf(c, rows, context_tokens), layers, whole, own);
  }

  struct Layers {
    std::vector<DecodeLayer::Load> loads;
    std::vector<std::vector<OperationLimit>> limits;
    std::vector<std::unique_ptr<kernels::Graph>> graphs;
    std::vector<std::unique_ptr<KernelsOf>> kernels;
    // The mean of of(layer) over all layers.
    template <class Of>
    double Mean(Of of) const {
      double sum = 0.0;
      for (size_t l = 0; l < loads.size(); ++l) sum += of(l);
      return sum / static_cast<double>(loads.size());
    }
  };

  // Runs each layer equally often, each time with the residual for which its load was read.
  template <class Queue>
  Medians InTurns(DecodeLayer& layer, const Layers& layers, Queue queue) {
    const auto count = static_cast<int>(layers.graphs.size());
    for (const auto& graph : layers.graphs) {
      Check(layer.ResetResidual());
      Check(context_->Replay(*graph));
    }
    const int turns = (kernels::cuda::kCalls + count - 1) / count * count;
    return kernels::cuda::MediansOf(stream_, turns, [&](StreamTimes& times, int turn) {
      Check(layer.ResetResidual());
      queue(times, static_cast<size_t>(turn % count));
    });
  }

  void Write(const Case& c, const std::string& line, const Layers& layers, const Medians& whole,
             const Medians& own) {
    const std::vector<cudaKernelNodeParams>& kernels = layers.kernels[0]->of;
    const size_t places = kernels.size() + 1;
    double sum = 0.0;
    for (size_t i = 0; i + 1 < places; ++i) {
      const double us = layers.Mean([&](size_t l) {
        return std::max(own.us.at(l * places + i) - own.us.at(l * places + places - 1), 0.0);
      });
      sum += us;
      results_.Write(line + ", kernel " + std::to_string(i) + " " + NameOf(kernels[i].func),
                     "\"own_us\": " + std::to_string(us) +
                         ", \"blocks\": " + std::to_string(kernels[i].gridDim.x));
    }
    const double bytes_per_us = bench_.read_bandwidth();
    const double flops_per_us = bench_.tensor_rate();
    double least = 0.0;
    double by_computed_peak = 0.0;
    for (size_t i = 0; i < layers.limits[0].size(); ++i) {
      const auto of = [&](size_t l) -> const OperationLimit& { return layers.limits[l][i]; };
      const double us =
          layers.Mean([&](size_t l) { return SumOfLimits({of(l)}, bytes_per_us, flops_per_us); });
      const double bytes = layers.Mean([&](size_t l) { return static_cast<double>(of(l).bytes); });
      const double flops = layers.Mean([&](size_t l) { return static_cast<double>(of(l).flops); });
      least += us;
      by_computed_peak += layers.Mean([&](size_t l) {
        return SumOfLimits({of(l)}, bytes_per_us, kernels::cuda::ComputedPeak());
      });
      results_.Write(line + ", limit of " + of(0).name,
                     "\"limit_us\": " + std::to_string(us) + ", \"bytes\": " +
                         std::to_string(bytes) + ", \"flops\": " + std::to_string(flops));
    }
    const double graph = layers.Mean([&](size_t l) { return whole.us.at(l); });
    const double experts =
        layers.Mean([&](size_t l) { return double{1} * layers.loads[l].experts; });
    const double rows = layers.Mean([&](size_t l) { return double{1} * layers.loads[l].rows; });
    std::string fields =
        "\"us\": " + std::to_string(graph) + ", \"limits_us\": " + std::to_string(least) +
        ", \"kernels_us\": " + std::to_string(sum) +
        ", \"kernels\": " + std::to_string(kernels.size()) +
        ", \"other_nodes\": " + std::to_string(layers.kernels[0]->others) +
        ", \"gaps_us\": " + std::to_string(graph - sum) +
        ", \"share_of_limits\": " + std::to_string(least / graph) +
        ", \"limits_by_computed_peak_us\": " + std::to_string(by_computed_peak) +
        ", \"layers\": " + std::to_string(c.model.layers) +
        ", \"experts\": " + std::to_string(experts) + ", \"expert_rows\": " + std::to_string(rows);
    if (!whole.ran_ahead || !own.ran_ahead) fields += ", \"host_too_slow\": 1";
    results_.Write(line, fields);  // last: a reader that finds this line finds all
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
  janus::kernels::PrepareCudaEnvironment();  // as a worker does before it makes contexts
  return janus::kernels::cuda::BenchMain(argc, argv, janus::bench::RunAll);
}
