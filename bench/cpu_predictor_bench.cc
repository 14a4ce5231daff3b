// How far predictions of steps on CPUs are off (controllers/cpu_costs.h): decode steps of the demo
// model in this process, a thread for each instance, beside what a predictor says by the speed that
// a worker measures. One attention and one expert instance unless told otherwise; more instances
// than cores take turns, which no prediction knows of.
//
//   cpu_predictor_bench [--attention M] [--experts N] [--tokens T] [--batch B]   one JSON line per
//   load

#include <cstdlib>
#include <vector>

#include "bench/flags.h"
#include "bench/measure.h"
#include "common/model/config.h"
#include "common/model/memory.h"
#include "controllers/cpu_costs.h"
#include "controllers/plan/performance.h"
#include "controllers/plan/shape_of.h"
#include "dataplane/worker/cpu_speed.h"
#include "tests/support/golden.h"

namespace janus::bench {
namespace {

using namespace janus::dataplane;  // NOLINT: this program is about it

// Seconds of a decode step, and what of them each module was busy; 0: not seen.
controllers::StepTimes Measure(const LoadedModel& loaded, const Topology& topology,
                               kernels::Isa isa, int batch, int context, int tokens) {
  LoopbackCluster::Options options;
  options.topology = topology;
  options.attention.max_batch = batch;
  options.attention.kv_bytes = int64_t{512} << 20;
  options.pace.prompt_step = Seconds(60.0);  // prompts in few steps
  options.device = kernels::Device::kCpu;
  options.isa = isa;
  LoopbackCluster cluster(std::move(options), loaded.model, loaded.attention.weights,
                          loaded.expert_pointers());
  std::vector<RequestKey> keys;
  for (int i = 0; i < batch; ++i) {
    Request request;
    request.key = {1, static_cast<uint64_t>(i), 1};
    for (int p = 0; p < context; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729) % loaded.model.vocab);
    }
    request.max_tokens = tokens;
    keys.push_back(request.key);
    JANUS_CHECK(cluster.attention(i % topology.m()).Submit(std::move(request)).ok());
  }
  // All prompts are done once the last request has its first tokens.
  for (const RequestKey& key : keys) (void)cluster.Await(key, 3);
  const InstanceStatistics attention_before = cluster.attention(0).statistics();
  const InstanceStatistics experts_before = cluster.experts(0).statistics();
  (void)cluster.Await(keys[0], tokens - 2);
  const InstanceStatistics attention = cluster.attention(0).statistics();
  const InstanceStatistics experts = cluster.experts(0).statistics();
  const auto steps = static_cast<double>(attention.steps - attention_before.steps);
  controllers::StepTimes times;
  times.step = attention.step_seconds_median;
  if (steps == 0) return times;  // they were over before the first look
  times.attention = (attention.compute_seconds - attention_before.compute_seconds) / steps;
  times.experts = (experts.compute_seconds - experts_before.compute_seconds) / steps;
  return times;
}

int Run(int m, int n, int tokens, const std::vector<int>& batches) {
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  const std::string folder = std::string(JANUS_SOURCE_DIR) + "/examples/demo-model";
  const Result<ModelDescription> model = LoadModelConfig(folder);
  if (!isa.ok() || !model.ok()) {
    std::fprintf(stderr, "%s\n", (isa.ok() ? model.status() : isa.status()).ToString().c_str());
    return 1;
  }
  const int slots = std::min(model->moe.experts, (3 * model->moe.experts / 2 + n - 1) / n);
  const Topology topology = MakeTopology(m, std::vector<int>(static_cast<size_t>(n), slots),
                                         model->layers, model->moe.experts, 1, 128);
  const LoadedModel loaded = *LoadForTopology(folder, *model, topology);
  const CpuSpeed speed = *MeasureCpuSpeed(*model, 1);
  controllers::Setting setting;
  setting.model = controllers::ShapeOf(*model);
  setting.attention = controllers::CpuCosts(controllers::CpuHardware(speed, 1, 1e9));
  setting.experts = setting.attention;
  setting.shares_node = true;
  controllers::Configuration how;
  how.m = m;
  how.n = n;
  how.slots = slots;
  for (const int batch : batches) {
    for (const int context : {16, 400}) {
      const controllers::StepTimes measured =
          Measure(loaded, topology, *isa, batch, context, tokens);
      const double keys = context + tokens / 2.0;
      const controllers::StepTimes predicted =
          TimesOfStep(setting, how, {static_cast<double>(batch), keys, 0, 0});
      JsonLine("cpu_predictor")
          .Int("attention", m)
          .Int("experts", n)
          .Int("batch", batch)
          .Int("keys", static_cast<int64_t>(keys))
          .Number("read_gb_per_s", speed.one.bytes / 1e9)
          .Number("gflops", speed.one.operations / 1e9)
          .Number("step_us", measured.step * 1e6)
          .Number("predicted_us", predicted.step * 1e6)
          .Number("predicted_over_measured", predicted.step / measured.step)
          .Number("attention_us", measured.attention * 1e6)
          .Number("attention_predicted_us", predicted.attention * 1e6)
          .Number("experts_us", measured.experts * 1e6)
          .Number("experts_predicted_us", predicted.experts * 1e6);
    }
  }
  return 0;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT
  int m = 1;
  int n = 1;
  int tokens = 600;
  int batch = 0;
  if (!TakeFlags("cpu_predictor_bench", {argv + 1, argv + argc},
                 {NumberFlag("--attention", 1, &m), NumberFlag("--experts", 1, &n),
                  NumberFlag("--tokens", 10, &tokens), NumberFlag("--batch", 1, &batch)})) {
    return 2;
  }
  return Run(m, n, tokens, batch > 0 ? std::vector<int>{batch} : std::vector<int>{1, 4, 16, 64});
}
