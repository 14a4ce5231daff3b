// The premise of balancing activated experts, measured on a GPU as in figures 1 and 2 of JANUS. It
// times the FFN of 32 of DeepSeek-V2's experts in bfloat16: over the number of experts that 64 rows
// activate; over rows, even or skewed, with all 32 activated; and, together with the layer's
// attention, over the batch with one row per expert and contexts of 512. It adds one JSON line per
// case to the file that --results names, flushed when the case ends. A case that is in the file is
// not run again. bench/gpu/premise_plot.py draws the lines.
//
// The expert FFN is timed as in experts_gpu_bench. Attention, from its norm to the rows for the
// experts, is one graph: medians of 30. Two layers take turns, so that their weights (0.3 GB each)
// and keys are read between two reads of the same bytes. Every run uses the same random residual.

#include "bench/gpu/deal_rows.h"
#include "bench/gpu/decode_layer.h"
#include "bench/gpu/device_tensors.h"
#include "bench/gpu/expert_call.h"
#include "bench/gpu/shapes.h"
#include "kernels/device/cuda_context.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {
namespace {

using kernels::cuda::Check;
using kernels::cuda::GpuBench;
using kernels::cuda::Results;

constexpr int kExperts = 32;
constexpr int kContext = 512;

void Ffn(GpuBench& bench, const std::string& name, const std::vector<int>& rows) {
  TimeExperts(bench, name, kernels::cuda::kDeepSeekV2Experts, DType::kBFloat16,
              kernels::cuda::FormHere(DType::kBFloat16), rows);
}

void OverActivated(GpuBench& bench) {
  for (const int experts : {1, 8, 16, 24, 32, 4, 12, 20, 28, 2, 6, 10}) {
    Ffn(bench, "premise, 64 rows, " + std::to_string(experts) + " experts activated",
        DealRows(experts, 64, 0.0));
  }
}

void OverRows(GpuBench& bench) {
  struct Deal {
    const char* name;
    double deviation;
  };
  for (const int rows : {64, 512, 4096, 128, 256, 1024, 2048, 32}) {
    for (const Deal& deal : {Deal{"even", 0.0}, Deal{"skewed", 0.25}, Deal{"more skewed", 0.1}}) {
      Ffn(bench, "premise, 32 experts activated, " + std::to_string(rows) + " rows, " + deal.name,
          DealRows(kExperts, rows, deal.deviation));
    }
  }
}

void OverBatch(GpuBench& bench, Results& results) {
  const std::vector<int> batches = {1, 32, 128, 512, 2048, 8, 64, 256, 1024, 4096, 4, 16};
  const auto name = [](const char* part, int batch) {
    return std::string("premise, ") + part + " of batch " + std::to_string(batch);
  };
  for (const int batch : batches) {
    Ffn(bench, name("experts", batch), DealRows(std::min(batch, kExperts), batch, 0.0));
  }
  const bool all_there = std::ranges::all_of(
      batches, [&](int batch) { return results.Find(name("attention", batch), "us") >= 0.0; });
  if (all_there) return;
  Result<std::unique_ptr<kernels::Context>> opened = kernels::MakeCudaContext();
  Check(opened.status());
  kernels::Context& context = **opened;
  constexpr int kLayers = 2;
  ModelDescription model = OfMoeLayers(DeepSeekV2(), kLayers);
  model.moe.experts = kExperts;
  model.moe.top_k = 1;
  DeviceTensors tensors(context, 1);
  const dataplane::HeldModel held = RandomModel(model, tensors);
  Check(context.Wait());
  const Topology topology = dataplane::MakeTopology(1, {kExperts}, kLayers, kExperts);
  for (const int batch : batches) {
    if (results.Find(name("attention", batch), "us") >= 0.0) continue;
    DecodeLayer layer(context, held, topology, Rank{0}, batch, kContext);
    Check(context.TakeFailure());
    Check(layer.SetResidual(RandomResidual(batch, model.hidden, 1)));
    std::vector<std::unique_ptr<kernels::Graph>> graphs;
    for (int l = 0; l < kLayers; ++l) {
      Result<std::unique_ptr<kernels::Graph>> graph =
          context.RecordGraph([&](const kernels::Stream& on) { return layer.Attend(on, l); });
      Check(graph.status());
      graphs.push_back(*std::move(graph));
    }
    int64_t bytes = 0, flops = 0;
    for (const OperationLimit& limit : LimitsOf(model, batch, kContext, {})) {
      bytes += limit.bytes;
      flops += limit.flops;
      if (std::string(limit.name) == "post norm") break;  // the rest belongs to the FFN
    }
    CheckRotates(kLayers * bytes);
    bench.TimeOn(
        static_cast<cudaStream_t>(context.stream().native),
        {.name = name("attention", batch), .bytes = bytes, .flops = flops},
        [&](int i) { Check(context.Replay(*graphs[static_cast<size_t>(i % kLayers)])); },
        [&](int) { Check(layer.ResetResidual()); });
  }
}

void RunAll(GpuBench& bench, Results& results) {
  OverActivated(bench);
  OverRows(bench);
  OverBatch(bench, results);
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  janus::kernels::PrepareCudaEnvironment();  // as a worker does before it makes contexts
  return janus::kernels::cuda::BenchMain(argc, argv, janus::bench::RunAll);
}
