// What does it cost an expert instance to record routing (dataplane/experts/routing_record.h), as a
// share of a step?
//
// of_demo: one attention and one expert instance in this process (a thread each) decode the demo
// model. Within one run, steps with a record, steps without one, and the record alone alternate;
// the last gets steps of the same shape. `share` is the record's cost alone over the time of a
// step, and must stay below 0.01. `with_over_without` is the ratio of whole steps; on a busy
// machine it mostly measures the other work.
//
// of_shape: the record alone, for models that are too large to decode here. One instance of n
// records its part of the layers of DeepSeek-V3 and DeepSeek-V2-Lite.
//
//   routing_record_bench [--steps N] [--blocks N]      one JSON line per case

#include <cstdlib>
#include <numeric>
#include <thread>
#include <utility>

#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/step_clock.h"
#include "common/model/config.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/comm/transport/loopback.h"
#include "dataplane/experts/expert_instance.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace janus::bench {
namespace {

using namespace janus::dataplane;  // NOLINT: this program is about it

constexpr int kPromptTokens = 8;

// Seconds of each step.
std::vector<double> Decode(const LoadedModel& loaded, const Topology& topology, kernels::Isa isa,
                           int batch, int steps, RoutingRecord* record) {
  const ModelDescription& model = loaded.model;
  const ExchangeShape shape = ShapeOf(topology, model.hidden, model.moe.top_k, WireType(model));
  LoopbackNetwork network(LayoutFor(topology.mode, shape, PeerId{}));
  const SystemClock clock;
  const auto connect = [&](Role role) {
    return network.Connect({role, Rank{0}}, WaitPolicy::ForThreads(2));
  };
  const auto attention_end = connect(Role::kAttention), expert_end = connect(Role::kExperts);
  const auto attention_exchange = *MakeAttentionExchange(shape, *attention_end);
  const auto expert_exchange = *MakeExpertExchange(shape, *expert_end);
  kernels::Team attention_team(1), expert_team(1);
  ExpertOptions expert_options;
  expert_options.routing = record;
  ExpertInstance experts(expert_options, model, loaded.experts[0].weights, topology, Rank{0},
                         *expert_end, *expert_exchange, clock,
                         kernels::Stream{kernels::Device::kCpu, &expert_team, isa, nullptr});
  StepClock sink(batch);
  AttentionOptions options;
  options.max_batch = batch;
  options.kv_bytes = int64_t{256} << 20;
  AttentionPace pace;
  pace.prompt_step = Seconds(60.0);  // all prompts in one step
  const auto attention =
      *AttentionInstance::Create(options, model, loaded.attention.weights, sink, clock);
  const auto epoch = *attention->Enter(
      topology, Rank{0}, *attention_end, *attention_exchange,
      kernels::Stream{kernels::Device::kCpu, &attention_team, isa, nullptr}, pace);
  for (int i = 0; i < batch; ++i) {
    Request request;
    request.key = {1, static_cast<uint64_t>(i), 1};
    for (int p = 0; p < kPromptTokens; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729) % model.vocab);
    }
    request.max_tokens = steps;
    JANUS_CHECK(attention->Submit(std::move(request)).ok());
  }
  const std::jthread serves([&](std::stop_token stop) { (void)experts.Run(stop); });
  const std::jthread runs([&](std::stop_token stop) { (void)attention->Run(*epoch, stop); });
  return sink.Await();
}

// The record alone, for a step in which every layer has a round of `rows`. Rows choose at random.
// Steps follow each other as fast as they can: no more samples are taken than in longer steps.
Spread Alone(const RoutingRecord::Epoch& epoch, int rows) {
  RoutingRecord record;
  record.Enter(epoch);
  Random random(1);
  // Enough of them that no cache can hold the next.
  std::vector<std::vector<uint16_t>> routed(16);
  std::vector<uint16_t> all(static_cast<size_t>(epoch.experts));
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (std::vector<uint16_t>& ids : routed) {
    for (int row = 0; row < rows; ++row) {
      for (size_t k = 0; k < static_cast<size_t>(epoch.top_k); ++k) {
        std::swap(all[k], all[k + random.Next() % (all.size() - k)]);
        ids.push_back(all[k]);
      }
    }
  }
  RoundKey key;
  key.epoch = epoch.number;
  return Measure(2000, 0.2, [&](int64_t step) {
    key.step = static_cast<uint64_t>(step);
    record.BeginStep();
    for (int layer = 0; layer < epoch.layers; ++layer) {
      key.layer = static_cast<uint16_t>(layer);
      record.Add(key, routed[static_cast<size_t>(step + layer) % routed.size()],
                 MonotonicClock::now());
    }
    record.EndStep();
  });
}

RoutingRecord::Epoch EpochOf(int layers, int experts, int top_k, int instances, int rows) {
  return {1, layers, experts, top_k, 0, instances, static_cast<size_t>(rows) * top_k};
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus;         // NOLINT
  using namespace janus::bench;  // NOLINT
  int steps = 200;
  int blocks = 3;
  if (!TakeFlags("routing_record_bench", {argv + 1, argv + argc},
                 {NumberFlag("--steps", 4, &steps), NumberFlag("--blocks", 1, &blocks)})) {
    return 2;
  }
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  const std::string folder = std::string(JANUS_SOURCE_DIR) + "/examples/demo-model";
  const Result<ModelDescription> model = LoadModelConfig(folder);
  if (!isa.ok() || !model.ok()) {
    std::fprintf(stderr, "%s\n", (isa.ok() ? model.status() : isa.status()).ToString().c_str());
    return 1;
  }
  const Topology topology = dataplane::MakeTopology(1, {model->moe.experts}, model->moe_layers(),
                                                    model->moe.experts, 1, 128);
  const dataplane::LoadedModel loaded = *dataplane::LoadForTopology(folder, *model, topology);
  for (const int batch : {1, 16, 64}) {
    std::vector<double> with, without;
    for (int block = 0; block < blocks; ++block) {
      dataplane::RoutingRecord record;
      for (const bool records : {block % 2 == 0, block % 2 != 0}) {
        const std::vector<double> took =
            Decode(loaded, topology, *isa, batch, steps, records ? &record : nullptr);
        (records ? with : without)
            .insert((records ? with : without).end(), took.begin(), took.end());
      }
    }
    const Spread alone =
        Alone(EpochOf(model->moe_layers(), model->moe.experts, model->moe.top_k, 1, batch), batch);
    const double step = SpreadOf(without).median;
    JsonLine("routing_record")
        .Text("case", "of_demo")
        .Int("batch", batch)
        .Int("steps", static_cast<int64_t>(without.size()))
        .Number("step_us_median", step * 1e6)
        .Number("record_us_median", alone.median * 1e6)
        .Number("record_us_p90", alone.p90 * 1e6)
        .Number("share", alone.median / step)
        .Number("with_over_without", SpreadOf(with).median / step);
  }
  struct Shape {
    const char* name;
    int layers, experts, top_k, instances;
  };
  for (const Shape& shape :
       {Shape{"DeepSeek-V2-Lite", 26, 64, 6, 4}, Shape{"DeepSeek-V3", 58, 256, 8, 32},
        Shape{"DeepSeek-V3", 58, 256, 8, 8}}) {
    for (const int batch : {64, 512, 4096}) {
      const Spread alone =
          Alone(EpochOf(shape.layers, shape.experts, shape.top_k, shape.instances, batch), batch);
      JsonLine("routing_record")
          .Text("case", "of_shape")
          .Text("model", shape.name)
          .Int("instances", shape.instances)
          .Int("batch", batch)
          .Number("record_us_median", alone.median * 1e6)
          .Number("record_us_p90", alone.p90 * 1e6);
    }
  }
  return 0;
}
