// The cost of a decode step of the demo model outside its kernels. One attention and one expert
// instance in this process (a thread each) decode; every answer becomes messages of a gateway's
// stream, as in a worker. This happens once on the step thread itself (inline) and once on the
// emission thread of a worker. The two alternate within one run.
//
// CPU share: the part of the steps' time in which the step thread was not in a kernel and did not
// wait for the experts.
//
//   step_bench [--steps N] [--blocks N] [--batch B]      one JSON line per case

#include <cstdlib>
#include <optional>
#include <thread>

#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/step_clock.h"
#include "common/model/config.h"
#include "dataplane/attention/attention_instance.h"
#include "dataplane/comm/transport/loopback.h"
#include "dataplane/engine/emission_thread.h"
#include "dataplane/experts/expert_instance.h"
#include "dataplane/worker/step_message.h"
#include "dataplane/worker/token_router.h"
#include "tests/support/golden.h"

namespace janus::bench {
namespace {

using namespace janus::dataplane;  // NOLINT: this program is about it

constexpr int kPromptTokens = 8;
constexpr int kLogprobs = 5;

// A gateway's stream: builds and serializes a message per step.
class Stream final : public TokenReceiver {
 public:
  explicit Stream(int batch) : clock_(batch) {}
  void OnStep(StepOutput&& output) override {
    v1::Step step;
    for (const TokenEvent& event : output.events) AddEvent(event, *step.add_requests());
    step.SerializeToString(&bytes_);
    clock_.Push(std::move(output));
  }
  std::vector<double> Await() { return clock_.Await(); }

 private:
  StepClock clock_;
  std::string bytes_;  // used by the thread that receives the steps
};

struct Measured {
  std::vector<double> steps;
  double host = 0.0;
  double all = 0.0;
};

Measured Decode(const LoadedModel& loaded, const Topology& topology, kernels::Isa isa, int batch,
                int steps, bool emission_thread) {
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
  StepMetrics attention_metrics, expert_metrics;  // the same as in a worker
  ExpertOptions expert_options;
  expert_options.metrics = &expert_metrics;
  ExpertInstance experts(expert_options, model, loaded.experts[0].weights, topology, Rank{0},
                         *expert_end, *expert_exchange, clock,
                         kernels::Stream{kernels::Device::kCpu, &expert_team, isa, nullptr});
  TokenRouter router;
  const auto stream = std::make_shared<Stream>(batch);
  const uint64_t id = router.Add(stream);
  std::optional<EmissionThread> emission;
  if (emission_thread) emission.emplace(router);
  TokenSink& sink = emission_thread ? static_cast<TokenSink&>(*emission) : router;
  AttentionOptions options;
  options.max_batch = batch;
  options.metrics = &attention_metrics;
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
    request.key = {id, static_cast<uint64_t>(i), 1};
    for (int p = 0; p < kPromptTokens; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729) % model.vocab);
    }
    request.max_tokens = steps;
    request.logprobs = kLogprobs;
    JANUS_CHECK(attention->Submit(std::move(request)).ok());
  }
  Measured m;
  {
    std::jthread serves([&](std::stop_token stop) { (void)experts.Run(stop); });
    std::jthread runs([&](std::stop_token stop) { (void)attention->Run(*epoch, stop); });
    m.steps = stream->Await();
  }
  const InstanceStatistics statistics = attention->statistics();
  m.host = statistics.host_seconds;
  m.all = statistics.compute_seconds + statistics.wait_seconds;
  return m;
}

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus;         // NOLINT
  using namespace janus::bench;  // NOLINT
  int steps = 200;
  int blocks = 3;
  std::vector<int> batches = {1, 16, 64};
  int single = 0;
  if (!TakeFlags("step_bench", {argv + 1, argv + argc},
                 {NumberFlag("--steps", 4, &steps), NumberFlag("--blocks", 1, &blocks),
                  NumberFlag("--batch", 1, &single)})) {
    return 2;
  }
  if (single > 0) batches = {single};
  const Result<kernels::Isa> isa = kernels::SelectIsa(kernels::DetectCpu());
  const std::string folder = std::string(JANUS_SOURCE_DIR) + "/examples/demo-model";
  const Result<ModelDescription> model = LoadModelConfig(folder);
  if (!isa.ok() || !model.ok()) {
    std::fprintf(stderr, "%s\n", (isa.ok() ? model.status() : isa.status()).ToString().c_str());
    return 1;
  }
  const Topology topology =
      dataplane::MakeTopology(1, {model->moe.experts}, model->layers, model->moe.experts, 1, 128);
  const dataplane::LoadedModel loaded = *dataplane::LoadForTopology(folder, *model, topology);
  for (const int batch : batches) {
    for (const bool emission_thread : {false, true}) {
      std::vector<double> all;
      double host = 0.0, sum = 0.0;
      for (int block = 0; block < blocks; ++block) {
        const Measured m = Decode(loaded, topology, *isa, batch, steps, emission_thread);
        all.insert(all.end(), m.steps.begin(), m.steps.end());
        host += m.host;
        sum += m.all;
      }
      const Spread spread = SpreadOf(all);
      JsonLine("step")
          .Text("emission", emission_thread ? "thread" : "inline")
          .Int("batch", batch)
          .Int("steps", static_cast<int64_t>(all.size()))
          .Number("steps_per_s", 1.0 / spread.median)
          .Number("step_us_median", spread.median * 1e6)
          .Number("step_us_p10", spread.p10 * 1e6)
          .Number("step_us_p90", spread.p90 * 1e6)
          .Number("cpu_share", host / sum);
    }
  }
  return 0;
}
