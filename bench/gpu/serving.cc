#include "bench/gpu/serving.h"

#include <algorithm>

namespace janus::bench {

using dataplane::LoopbackCluster;
using dataplane::RequestKey;

std::string ServingTopology::name() const {
  return std::to_string(m) + "A" + std::to_string(slots.size()) + "E" +
         (micro_batches > 1 ? ", " + std::to_string(micro_batches) + " micro-batches" : "");
}

Served Serve(const dataplane::HeldModel& held, LoopbackCluster::Options options,
             const ServingTopology& topology, const ServingLoad& load) {
  const ModelDescription& model = held.model;
  const int each = (load.batch + topology.m - 1) / topology.m;
  options.topology =
      dataplane::MakeTopology(topology.m, topology.slots, model.moe_layers(), model.moe.experts,
                              topology.micro_batches, std::max(each, 512));
  options.attention.max_batch = each;
  options.attention.swap_bytes = 0;
  options.attention.kv_bytes = int64_t{each} *
                               dataplane::KvCache::PagesFor(load.prompt + load.answer) *
                               dataplane::CachePageBytes(model) * model.layers;
  const std::vector<dataplane::ExpertWeights> shares = held.Shares(options.topology.placement);
  LoopbackCluster cluster(options, model, held.attention, dataplane::PointersTo(shares));
  const MonotonicTime start = MonotonicClock::now();
  const auto key = [](int i) { return RequestKey{1, static_cast<uint64_t>(i), 1}; };
  for (int i = 0; i < load.batch; ++i) {
    dataplane::Request request;
    request.key = key(i);
    for (int p = 0; p < load.prompt; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729 + 1) % model.vocab);
    }
    request.max_tokens = load.answer;
    request.temperature = 0.0f;
    const Status submitted = cluster.attention(i % topology.m).Submit(std::move(request));
    JANUS_CHECK(submitted.ok(), submitted.ToString());
  }
  Served served;
  for (int i = 0; i < load.batch; ++i) {
    LoopbackCluster::Outcome outcome = cluster.Await(key(i));
    JANUS_CHECK(outcome.error.ok(), outcome.error.ToString());
    served.tokens.push_back(std::move(outcome.tokens));
  }
  served.seconds = Seconds(MonotonicClock::now() - start).count();
  const InstanceStatistics statistics = cluster.attention(0).statistics();
  served.tpot = statistics.tpot_seconds_median;
  served.step = statistics.step_seconds_median;
  const double steps = statistics.compute_seconds + statistics.wait_seconds;
  served.wait_share = statistics.wait_seconds / steps;
  served.host_share = statistics.host_seconds / steps;
  return served;
}

bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const LoopbackCluster::Options& options,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results) {
  std::vector<std::vector<int32_t>> wanted;
  bool alike = true;
  const auto line = [&](const ServingTopology& topology) {
    return name + ", " + topology.name() + ", batch " + std::to_string(load.batch) + ", prompt " +
           std::to_string(load.prompt);
  };
  const bool all_there = std::all_of(topologies.begin(), topologies.end(), [&](const auto& t) {
    return results.Find(line(t), "same_tokens") >= 0.0;
  });
  for (const ServingTopology& topology : topologies) {
    const double known = results.Find(line(topology), "same_tokens");
    if (all_there || (known >= 0.0 && !wanted.empty())) {
      alike = alike && known > 0.0;
      continue;
    }
    const Served served = Serve(held, options, topology, load);
    if (wanted.empty()) wanted = served.tokens;
    const bool same = served.tokens == wanted;
    alike = alike && same;
    if (known >= 0.0) continue;
    const double tokens = static_cast<double>(load.batch) * load.answer;
    results.Write(line(topology),
                  "\"same_tokens\": " + std::to_string(same ? 1 : 0) +
                      ", \"tokens_per_second\": " + std::to_string(tokens / served.seconds) +
                      ", \"tpot_ms\": " + std::to_string(1e3 * served.tpot) +
                      ", \"step_ms\": " + std::to_string(1e3 * served.step) +
                      ", \"wait_share\": " + std::to_string(served.wait_share) +
                      ", \"host_share\": " + std::to_string(served.host_share));
  }
  return alike;
}

}  // namespace janus::bench
