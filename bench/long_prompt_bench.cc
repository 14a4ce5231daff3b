// Does a long prompt at one attention instance delay the answers of another? Two attention
// instances and one expert instance, threads of this process, decode with a random model. Then one
// of them gets a prompt. It computes the prompt in pieces that fit beside its decode rows into each
// step's budget. Prints the gaps between the other instance's tokens, before and during the prompt.
//
//   long_prompt_bench [--prompt TOKENS] [--share S]
//
// The TPOT target is S (1.25) times the median gap without the prompt, measured in the same run.

#include <cmath>
#include <cstdlib>
#include <string>

#include "bench/flags.h"
#include "bench/measure.h"
#include "bench/stolen_time.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {
namespace {

using namespace janus::dataplane;  // NOLINT: this program is about it

constexpr int kDecoding = 4;   // sequences at the other instance
constexpr int kBefore = 1000;  // gaps; fewer would not give the machine's p99

ModelDescription Shape(int prompt) {
  ModelDescription model;
  model.family = "mixtral";
  model.architecture = "MixtralForCausalLM";
  model.dtype = DType::kBFloat16;
  model.vocab = 8000;
  model.hidden = 1024;
  model.layers = 4;
  model.max_positions = 8 * prompt + 4 * kBefore;  // the sequences that decode must not end before
  model.attention.heads = 8;
  model.attention.kv_heads = 2;
  model.attention.head_dim = 128;
  model.attention.scale = 1.0f / std::sqrt(128.0f);
  model.attention.rope.rotary_dim = 128;
  model.moe.experts = 8;
  model.moe.top_k = 2;
  model.moe.intermediate = 1792;
  model.moe.renormalize = true;
  return model;
}

Request MakeRequest(const ModelDescription& model, uint64_t id, int prompt, int tokens) {
  Request request;
  request.key = {1, id, 1};
  for (int p = 0; p < prompt; ++p)
    request.prompt.push_back(static_cast<int32_t>((id * 7919 + 104729 * static_cast<uint64_t>(p)) %
                                                  static_cast<uint64_t>(model.vocab)));
  request.max_tokens = tokens;
  return request;
}

class Run {
 public:
  Run(const HeldModel& held, Seconds prompt_step) : model_(held.model) {
    options_.topology =
        MakeTopology(2, {model_.moe.experts}, model_.layers, model_.moe.experts, 1, 512);
    options_.device = kernels::Device::kCpu;
    options_.isa = *kernels::SelectIsa(kernels::DetectCpu());
    options_.pace.prompt_step = prompt_step;
    options_.attention.kv_bytes = int64_t{512} << 20;
    shares_ = held.Shares(options_.topology.placement);
    cluster_ = std::make_unique<LoopbackCluster>(options_, model_, held.attention,
                                                 std::vector<const ExpertWeights*>{&shares_[0]});
    for (uint64_t id = 1; id <= kDecoding; ++id) {
      const Status taken = cluster_->attention(1).Submit(
          MakeRequest(model_, id, 1, static_cast<int>(model_.max_positions) - 1));
      JANUS_CHECK(taken.ok(), taken.ToString());
    }
    (void)Gap();
  }

  std::vector<double> GapsBefore() {
    std::vector<double> gaps;
    for (int i = 0; i < kBefore; ++i) gaps.push_back(Gap());
    return gaps;
  }
  std::vector<double> GapsBeside(int prompt) {
    constexpr uint64_t kLong = 100;
    const Status taken = cluster_->attention(0).Submit(MakeRequest(model_, kLong, prompt, 1));
    JANUS_CHECK(taken.ok(), taken.ToString());
    std::vector<double> gaps;
    do {
      gaps.push_back(Gap());
    } while (!cluster_->attention(0).WaitIdle(MonotonicClock::now()));
    return gaps;
  }

 private:
  // Seconds until the next token of the first sequence.
  double Gap() {
    const MonotonicTime begin = MonotonicClock::now();
    const LoopbackCluster::Outcome outcome = cluster_->Await({1, 1, 1}, ++seen_);
    JANUS_CHECK(outcome.finish == FinishReason::kNone, outcome.error.ToString());
    seen_ = static_cast<int>(outcome.tokens.size());
    return Seconds(MonotonicClock::now() - begin).count();
  }

  ModelDescription model_;
  LoopbackCluster::Options options_;
  std::vector<ExpertWeights> shares_;
  std::unique_ptr<LoopbackCluster> cluster_;
  int seen_ = 0;
};

}  // namespace
}  // namespace janus::bench

int main(int argc, char** argv) {
  using namespace janus;         // NOLINT
  using namespace janus::bench;  // NOLINT
  int prompt = 8192;
  double share = 1.25;
  if (!TakeFlags("long_prompt_bench", {argv + 1, argv + argc},
                 {NumberFlag("--prompt", 1, &prompt), NumberFlag("--share", 1.0, &share)})) {
    return 2;
  }
  const dataplane::HeldModel held = dataplane::RandomModel(Shape(prompt), 1);
  const double plain = SpreadOf(Run(held, Seconds(60.0)).GapsBefore()).median;
  Run run(held, Seconds(plain * share));
  const StolenTime stolen_before;
  const Spread before = SpreadOf(run.GapsBefore());
  const double share_before = stolen_before.share();
  const StolenTime stolen_beside;
  const std::vector<double> gaps = run.GapsBeside(prompt);
  const double share_beside = stolen_beside.share();
  double whole = 0.0;
  for (const double gap : gaps) whole += gap;
  const Spread beside = SpreadOf(gaps);
  JsonLine("long_prompt")
      .Int("prompt", prompt)
      .Number("tpot_target_ms", plain * share * 1e3)
      .Number("before_p50_ms", before.median * 1e3)
      .Number("before_p99_ms", before.p99 * 1e3)
      .Number("beside_p50_ms", beside.median * 1e3)
      .Number("beside_p99_ms", beside.p99 * 1e3)
      .Int("steps_beside", static_cast<int64_t>(gaps.size()))
      .Number("prompt_seconds", whole)
      .Number("stolen_before", share_before)
      .Number("stolen_beside", share_beside)
      .Number("p99_ratio", beside.p99 / before.p99);
}
