#include "tests/integration/faults/served.h"

#include <algorithm>

#include "tests/support/schedule.h"

namespace janus::dataplane {

uint64_t Served::rounds_missed() const {
  uint64_t sum = 0;
  for (const InstanceStatistics& one : statistics) sum += one.rounds_missed;
  return sum;
}

Served Serve(const HeldModel& held, const Service& service, const Faults& faults,
             const LoopbackCluster::WrapTransport& wrap, const Meanwhile& meanwhile) {
  const Topology& topology = service.topology;
  const std::vector<ExpertWeights> shares = held.Shares(topology.placement);
  std::map<PeerId, FaultyTransport*> transports;
  LoopbackCluster::Options options;
  options.topology = topology;
  options.compression = service.compression;
  options.sums = TestSums(held.model, service.sum_bits);
  options.attention.kv_bytes = 1 << 18;
  options.attention.max_batch = 4;
  options.pace.deadlines = service.deadlines;
  if (service.make_context) {
    options.device = kernels::Device::kCuda;
    options.make_context = service.make_context;
    options.device_join = service.device_join;
  }
  if (service.prefill_rows > 0) {
    options.steering.prefill_override = [&](uint64_t) { return service.prefill_rows; };
  }
  options.wrap_transport = [&](PeerId self, std::unique_ptr<Transport> inner) {
    if (wrap) inner = wrap(self, std::move(inner));
    const auto planned = faults.find(self);
    auto faulty = std::make_unique<FaultyTransport>(
        std::move(inner), planned == faults.end() ? std::vector<PlannedFault>() : planned->second);
    transports[self] = faulty.get();
    return faulty;
  };
  LoopbackCluster cluster(options, held.model, held.attention, PointersTo(shares));
  const auto key_of = [](int i) { return RequestKey{1, static_cast<uint64_t>(i), 1}; };
  for (int i = 0; i < service.requests; ++i) {
    Request request;
    request.key = key_of(i);
    for (int p = 0; p < service.prompt; ++p) request.prompt.push_back((5 + p + 7 * i) % 80);
    request.max_tokens = service.max_tokens;
    request.temperature = 0.7f;
    request.seed = 11;
    request.want_logits_hash = true;
    JANUS_CHECK(
        cluster.attention(service.at.value_or(i % topology.m())).Submit(std::move(request)).ok());
  }
  if (meanwhile) meanwhile(cluster);
  Served run;
  for (int i = 0; i < service.requests; ++i) run.outcomes.push_back(cluster.Await(key_of(i)));
  run.failure = cluster.Stop();
  for (const auto& [peer, transport] : transports) run.messages[peer] = transport->messages();
  for (int a = 0; a < topology.m(); ++a)
    run.statistics.push_back(cluster.attention(a).statistics());
  for (int e = 0; e < topology.n(); ++e) run.statistics.push_back(cluster.experts(e).statistics());
  return run;
}

std::string Differences(const Served& run, const Served& whole) {
  std::string found;
  for (size_t i = 0; i < run.outcomes.size(); ++i) {
    const LoopbackCluster::Outcome& outcome = run.outcomes[i];
    const LoopbackCluster::Outcome& want = whole.outcomes[i];
    const std::string who = "request " + std::to_string(i) + ": ";
    if (outcome.finish == FinishReason::kLength && outcome.tokens.size() != want.tokens.size()) {
      found += who + std::to_string(outcome.tokens.size()) + " tokens\n";
    }
    if (outcome.tokens.size() > want.tokens.size()) {
      found += who + "more tokens than it asked for\n";
      continue;
    }
    for (size_t t = 0; t < outcome.tokens.size(); ++t) {
      if (outcome.tokens[t] != want.tokens[t]) {
        found += who + "another token " + std::to_string(t) + "\n";
      }
      if (outcome.events[t].logits_hash != want.events[t].logits_hash) {
        found += who + "other logits for token " + std::to_string(t) + "\n";
      }
    }
  }
  return found;
}

bool Complete(const Served& run) {
  return std::all_of(run.outcomes.begin(), run.outcomes.end(),
                     [](const auto& outcome) { return outcome.finish == FinishReason::kLength; });
}

}  // namespace janus::dataplane
