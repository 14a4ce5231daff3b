#include "bench/gpu/serving.h"

#include <algorithm>
#include <numeric>

#include "bench/mono/local_experts.h"
#include "bench/mono/lone_transport.h"

namespace janus::bench {

using dataplane::LoopbackCluster;
using dataplane::RequestKey;

namespace {

constexpr int kHashedTokens = 8;  // of an answer: each is a copy of its logits to the host

// The experts of a service that has no instances for them, on a device context of their own.
class WholeModel {
 public:
  WholeModel(const dataplane::HeldModel& held, const Topology& topology,
             const dataplane::ExpertWeights& share, const LoopbackCluster::Options& options)
      : context_(options.make_context()) {
    const ModelDescription& model = held.model;
    const dataplane::ExpertWeights* weights = &share;
    if (!options.weights_are_placed) {
      loader_ = *kernels::Loader::Make(*context_, kernels::PinnedRing());
      placed_ = *dataplane::PlaceExperts(*loader_, model, share);
      const Status followed = placed_.Follow(*context_);
      JANUS_CHECK(followed.ok(), followed.ToString());
      weights = &placed_.weights;
    }
    layers_ =
        dataplane::MakeExpertLayers(model, *weights, topology, Rank{0}, {}, context_->place());
    const Status taken = context_->TakeFailure();
    JANUS_CHECK(taken.ok(), taken.ToString());
    shape_ = dataplane::ShapeOf(topology, model.hidden, model.moe.top_k, WireType(model));
  }

  void PutInto(LoopbackCluster::Options& options) {
    options.without_experts = true;
    options.wrap_exchange = [this](std::unique_ptr<dataplane::AttentionExchange>) {
      return std::make_unique<LocalExperts>(shape_, *layers_);
    };
    options.wrap_transport = [](dataplane::PeerId, std::unique_ptr<dataplane::Transport>) {
      return std::make_unique<LoneTransport>(WaitPolicy::ForThreads(1));
    };
  }

 private:
  const std::unique_ptr<kernels::Context> context_;
  std::unique_ptr<kernels::Loader> loader_;
  dataplane::Placed<dataplane::ExpertWeights> placed_;
  std::unique_ptr<dataplane::ExpertLayers> layers_;
  dataplane::ExchangeShape shape_;
};

RequestKey KeyOf(uint64_t wave, int i) {
  return {wave, static_cast<uint64_t>(i), 1};
}

// Asks for all answers of a load.
void Submit(LoopbackCluster& cluster, const ModelDescription& model, const ServingLoad& load, int m,
            uint64_t wave, bool hashed) {
  for (int i = 0; i < load.batch; ++i) {
    dataplane::Request request;
    request.key = KeyOf(wave, i);
    for (int p = 0; p < load.prompt; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729 + 1) % model.vocab);
    }
    request.max_tokens = hashed ? std::min(load.answer, kHashedTokens) : load.answer;
    request.temperature = 0.0f;
    request.want_logits_hash = hashed;
    const Status submitted = cluster.attention(i % m).Submit(std::move(request));
    JANUS_CHECK(submitted.ok(), submitted.ToString());
  }
}

// Until each has so many tokens: how many there are.
int64_t AwaitTokens(LoopbackCluster& cluster, const ServingLoad& load, uint64_t wave, int tokens) {
  for (int i = 0; i < load.batch; ++i) cluster.Await(KeyOf(wave, i), tokens);
  int64_t there = 0;
  for (int i = 0; i < load.batch; ++i) {
    there += static_cast<int64_t>(cluster.Await(KeyOf(wave, i), tokens).tokens.size());
  }
  return there;
}

std::vector<LoopbackCluster::Outcome> AwaitAll(LoopbackCluster& cluster, const ServingLoad& load,
                                               uint64_t wave) {
  std::vector<LoopbackCluster::Outcome> outcomes;
  for (int i = 0; i < load.batch; ++i) {
    outcomes.push_back(cluster.Await(KeyOf(wave, i)));
    JANUS_CHECK(outcomes.back().error.ok(), outcomes.back().error.ToString());
  }
  return outcomes;
}

void Hashed(LoopbackCluster& cluster, const ModelDescription& model, const ServingLoad& load, int m,
            Served& served) {
  Submit(cluster, model, load, m, 1, true);
  for (const LoopbackCluster::Outcome& outcome : AwaitAll(cluster, load, 1)) {
    served.tokens.push_back(outcome.tokens);
    std::vector<uint64_t>& bits = served.logit_bits.emplace_back();
    for (const dataplane::TokenEvent& event : outcome.events) {
      if (event.has_logits_hash) bits.push_back(event.logits_hash);
    }
  }
}

// The answers that begin as those before did take their place.
void TakeTokens(const std::vector<LoopbackCluster::Outcome>& outcomes, Served& served) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    std::vector<int32_t>& before = served.tokens[i];
    const std::vector<int32_t>& now = outcomes[i].tokens;
    JANUS_CHECK(
        now.size() >= before.size() && std::equal(before.begin(), before.end(), now.begin()),
        "the same request has other tokens when it comes again", i);
    before = now;
  }
}

void Timed(LoopbackCluster& cluster, const ModelDescription& model, const ServingLoad& load, int m,
           Served& served) {
  const InstanceStatistics before = cluster.attention(0).statistics();
  const MonotonicTime start = MonotonicClock::now();
  Submit(cluster, model, load, m, 2, false);
  const int64_t there = AwaitTokens(cluster, load, 2, 1);
  const MonotonicTime decodes = MonotonicClock::now();
  TakeTokens(AwaitAll(cluster, load, 2), served);
  const MonotonicTime end = MonotonicClock::now();
  const InstanceStatistics after = cluster.attention(0).statistics();
  served.seconds = Seconds(end - start).count();
  const auto decoded = static_cast<double>(int64_t{load.batch} * load.answer - there);
  const double window = Seconds(end - decodes).count();
  served.decode_rate = decoded / window;
  served.tpot = decoded > 0 ? load.batch * window / decoded : 0.0;
  served.step = after.step_seconds_median;
  const double waited = after.wait_seconds - before.wait_seconds;
  const double steps = after.compute_seconds - before.compute_seconds + waited;
  served.wait_share = waited / steps;
  served.host_share = (after.host_seconds - before.host_seconds) / steps;
}

void Watched(LoopbackCluster& cluster, const ModelDescription& model, const ServingLoad& load,
             int m, StreamClock& clock, const std::vector<BusyContext*>& contexts, Served& served) {
  const kernels::Stream own = clock.own_stream();
  clock.Mark(own);  // from which all count
  for (BusyContext* const context : contexts) context->Watch(true);
  Submit(cluster, model, load, m, 3, false);
  AwaitTokens(cluster, load, 3, 1);
  const size_t begin = clock.Mark(own);
  TakeTokens(AwaitAll(cluster, load, 3), served);
  const size_t end = clock.Mark(own);
  for (BusyContext* const context : contexts) context->Watch(false);
  // Steps that nobody asked for any more are under way for a moment yet.
  const Status stopped = cluster.Stop();
  JANUS_CHECK(stopped.ok(), stopped.ToString());
  std::vector<std::pair<double, double>> spans;
  for (BusyContext* const context : contexts) {
    JANUS_CHECK(context->Wait().ok());
    for (const BusySpan& span : context->TakeSpans()) {
      spans.emplace_back(clock.SecondsOf(span.begin), clock.SecondsOf(span.end));
    }
  }
  served.outside_kernels =
      UncoveredShare(std::move(spans), clock.SecondsOf(begin), clock.SecondsOf(end));
}

}  // namespace

std::string ServingTopology::name() const {
  if (is_whole) return "one process";
  return std::to_string(m) + "A" + std::to_string(slots.size()) + "E" +
         (micro_batches > 1 ? ", " + std::to_string(micro_batches) + " micro-batches" : "") +
         (in_place ? ", in place" : "");
}

std::string LineOf(const std::string& model, const ServingTopology& topology,
                   const ServingLoad& load) {
  return model + ", " + topology.name() + ", batch " + std::to_string(load.batch) + ", prompt " +
         std::to_string(load.prompt) + ", answer " + std::to_string(load.answer);
}

uint64_t Served::Digest() const {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  const auto add = [&](uint64_t word) {
    for (int i = 0; i < 64; i += 8) hash = (hash ^ (word >> i & 0xFFu)) * 0x100000001B3u;
  };
  for (const auto& of : tokens) {
    for (const int32_t token : of) add(static_cast<uint64_t>(token));
  }
  for (const auto& of : logit_bits) {
    for (const uint64_t bits : of) add(bits);
  }
  return (hash ^ hash >> 48) & 0xFFFFFFFFFFFFu;
}

Served Serve(const dataplane::HeldModel& held, LoopbackCluster::Options options, StreamClock& clock,
             const ServingTopology& topology, const ServingLoad& load) {
  const ModelDescription& model = held.model;
  const int each = (load.batch + topology.m - 1) / topology.m;
  options.topology =
      dataplane::MakeTopology(topology.m, topology.slots, model.moe_layers(), model.moe.experts,
                              topology.micro_batches, std::max(each, 512));
  options.exchange_on_device = topology.in_place;
  options.attention.max_batch = each;
  options.attention.swap_bytes = 0;
  options.attention.kv_bytes = int64_t{each} *
                               dataplane::KvCache::PagesFor(load.prompt + load.answer) *
                               dataplane::CachePageBytes(model, WireType(model)) * model.layers;
  std::vector<BusyContext*> contexts;
  options.make_context = [&contexts, &clock, make = options.make_context] {
    auto context = std::make_unique<BusyContext>(make(), clock);
    contexts.push_back(context.get());
    return context;
  };
  const std::vector<dataplane::ExpertWeights> shares = held.Shares(options.topology.placement);
  std::optional<WholeModel> whole;
  if (topology.is_whole) {
    whole.emplace(held, options.topology, shares[0], options);
    whole->PutInto(options);
  }
  LoopbackCluster cluster(options, model, held.attention, dataplane::PointersTo(shares));
  Served served;
  Hashed(cluster, model, load, topology.m, served);
  Timed(cluster, model, load, topology.m, served);
  Watched(cluster, model, load, topology.m, clock, contexts, served);
  return served;
}

bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const LoopbackCluster::Options& options, const MakeClock& make_clock,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results) {
  bool alike = true;
  double first = -1.0;
  for (const ServingTopology& topology : topologies) {
    const std::string line = LineOf(name, topology, load);
    const double known = results.Find(line, "bits");
    if (known >= 0.0) {
      if (first < 0.0) first = known;
      alike = alike && known == first;
      continue;
    }
    const std::unique_ptr<StreamClock> clock = make_clock();
    const Served served = Serve(held, options, *clock, topology, load);
    const uint64_t bits = served.Digest();
    if (first < 0.0) first = static_cast<double>(bits);
    const bool same = static_cast<double>(bits) == first;
    alike = alike && same;
    const double tokens = static_cast<double>(load.batch) * load.answer;
    results.Write(line,
                  "\"same_bits\": " + std::to_string(same ? 1 : 0) +
                      ", \"bits\": " + std::to_string(bits) +
                      ", \"tokens_per_second\": " + std::to_string(tokens / served.seconds) +
                      ", \"decode_tokens_per_second\": " + std::to_string(served.decode_rate) +
                      ", \"tpot_ms\": " + std::to_string(1e3 * served.tpot) +
                      ", \"step_ms\": " + std::to_string(1e3 * served.step) +
                      ", \"outside_kernels_share\": " + std::to_string(served.outside_kernels) +
                      ", \"wait_share\": " + std::to_string(served.wait_share) +
                      ", \"host_share\": " + std::to_string(served.host_share));
  }
  return alike;
}

}  // namespace janus::bench
