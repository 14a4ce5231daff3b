#include "bench/gpu/serving.h"

#include <iostream>
#include <optional>
#include <utility>

#include "bench/mono/local_experts.h"
#include "bench/mono/lone_transport.h"
#include "tests/support/gpu_cases/json_text.h"

namespace janus::bench {

using dataplane::LoopbackCluster;

namespace {

// The experts of a service without expert instances, on a separate device context.
class WholeModel {
 public:
  WholeModel(const dataplane::HeldModel& held, const Topology& topology,
             const dataplane::ExpertWeights& share, const LoopbackCluster::Options& options)
      : context_(options.make_context()) {
    const ModelDescription& model = held.model;
    const dataplane::ExpertWeights* weights = &share;
    if (!options.weights_are_placed) {
      uploader_ = *kernels::Uploader::Make(*context_, kernels::PinnedRing());
      placed_ = *dataplane::PlaceExperts(*uploader_, model, share);
      const Status followed = placed_.StreamWait(*context_);
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
      return std::make_unique<LocalExperts>(shape_, *layers_, *context_);
    };
    options.wrap_transport = [](dataplane::PeerId, std::unique_ptr<dataplane::Transport>) {
      return std::make_unique<LoneTransport>(WaitPolicy::ForThreads(1));
    };
  }

 private:
  const std::unique_ptr<kernels::Context> context_;
  std::unique_ptr<kernels::Uploader> uploader_;
  dataplane::Placed<dataplane::ExpertWeights> placed_;
  std::unique_ptr<dataplane::ExpertLayers> layers_;
  dataplane::ExchangeShape shape_;
};

Status Watched(LoopbackCluster& cluster, LoadClient& client, StreamClock& clock,
               const std::vector<BusyContext*>& contexts, Served& served) {
  const kernels::Stream own = clock.own_stream();
  clock.Mark(own);  // times count from this mark
  for (BusyContext* const context : contexts) context->Watch(true);
  client.Submit(3, false);
  client.AwaitTokens(3, 1);
  const size_t begin = clock.Mark(own);
  const Status taken = LoadClient::TakeTokens(client.AwaitAll(3), served);
  const size_t end = clock.Mark(own);
  for (BusyContext* const context : contexts) context->Watch(false);
  // Steps without a request continue for a moment.
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
  return taken;
}

}  // namespace

Result<Served> Serve(const dataplane::HeldModel& held, LoopbackCluster::Options options,
                     StreamClock& clock, const ServingTopology& topology, const ServingLoad& load) {
  const ModelDescription& model = held.model;
  SetUp(model, topology, load, options);
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
  if (const std::string why = cluster.InPlaceRefusal(); topology.in_place && !why.empty()) {
    return FailedPrecondition("rows do not go in place: " + why);
  }
  Served served;
  LoadClient client(cluster, model, load, topology.m);
  client.Hashed(served);
  JANUS_RETURN_IF_ERROR(client.Timed(served));
  JANUS_RETURN_IF_ERROR(Watched(cluster, client, clock, contexts, served));
  return served;
}

bool IsRefused(const kernels::cuda::Results& results, const std::string& line) {
  return results.Find(line, "refused") >= 0.0;
}

bool ServeEach(const std::string& name, const ServeOne& serve,
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
    if (IsRefused(results, line)) continue;
    if (results.Find(line, "same_bits") == 0.0) {  // it did not even repeat its own tokens
      alike = false;
      continue;
    }
    if (!results.Begin(line)) continue;
    const Result<Served> answered = serve(topology);
    if (const Status& status = answered.status(); !status.ok()) {
      std::cerr << line << ": " << status.ToString() << '\n';
      // A topology that this machine cannot run has no bits to compare.
      if (status.code() == StatusCode::kFailedPrecondition) {
        results.Write(line, "\"refused\": " + JsonText(status.ToString()));
        continue;
      }
      if (status.code() == StatusCode::kDataLoss) {
        results.Write(line, "\"same_bits\": 0, \"says\": " + JsonText(status.ToString()));
      }
      alike = false;
      continue;
    }
    const Served& served = *answered;
    const uint64_t bits = served.Digest();
    if (first < 0.0) first = static_cast<double>(bits);
    const bool same = static_cast<double>(bits) == first;
    alike = alike && same;
    const double tokens = static_cast<double>(load.batch) * load.answer;
    std::string fields = "\"same_bits\": " + std::to_string(same ? 1 : 0) +
                         ", \"bits\": " + std::to_string(bits) +
                         ", \"request_0_bits\": " + std::to_string(served.DigestOf(0));
    const auto add = [&](const std::string& field, double value) {
      fields += ", \"" + field + "\": " + std::to_string(value);
    };
    add("tokens_per_second", tokens / served.seconds);
    add("decode_tokens_per_second", served.decode_rate);
    add("tpot_ms", 1e3 * served.tpot);
    add("step_ms", 1e3 * served.step);
    if (!topology.has_processes) add("outside_kernels_share", served.outside_kernels);
    add("wait_share", served.wait_share);
    add("host_share", served.host_share);
    results.Write(line, fields);
  }
  return alike;
}

bool SameOverLoads(const std::string& name, const std::vector<ServingTopology>& topologies,
                   std::span<const ServingLoad> loads, kernels::cuda::Results& results) {
  std::string over;
  for (const ServingLoad& load : loads) {
    over += (over.empty() ? "" : ", ") + std::to_string(load.batch);
  }
  const std::string line = name + ", request 0 over batches of " + over;
  double first = -1.0;
  bool alike = true, all_there = true;
  int lines = 0;
  for (const ServingLoad& load : loads) {
    for (const ServingTopology& topology : topologies) {
      const std::string of = LineOf(name, topology, load);
      if (IsRefused(results, of)) continue;
      ++lines;
      const double bits = results.Find(of, "request_0_bits");
      if (bits < 0.0) {
        all_there = false;
        continue;
      }
      if (first < 0.0) first = bits;
      if (bits == first) continue;
      std::cerr << of << ": request 0 has other bits than in another batch\n";
      alike = false;
    }
  }
  if (all_there && results.Find(line, "same_bits") < 0.0) {
    results.Write(line, "\"same_bits\": " + std::to_string(alike ? 1 : 0) +
                            ", \"lines\": " + std::to_string(lines));
  }
  return alike;
}

bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const LoopbackCluster::Options& options, const MakeClock& make_clock,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results) {
  const ServeOne serve = [&](const ServingTopology& topology) {
    const std::unique_ptr<StreamClock> clock = make_clock();
    return Serve(held, options, *clock, topology, load);
  };
  return ServeEach(name, serve, topologies, load, results);
}

}  // namespace janus::bench
