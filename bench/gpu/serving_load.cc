#include "bench/gpu/serving_load.h"

#include <algorithm>

namespace janus::bench {

using dataplane::LoopbackCluster;
using dataplane::RequestKey;

namespace {

constexpr int kHashedTokens = 8;  // of an answer: each needs a copy of its logits

RequestKey KeyOf(uint64_t wave, int i) {
  return {wave, static_cast<uint64_t>(i), 1};
}

// FNV-1a, folded to 48 bits.
class Digester {
 public:
  template <class Word>
  void Add(const std::vector<Word>& words) {
    for (const Word word : words) {
      for (int i = 0; i < 64; i += 8) {
        hash_ = (hash_ ^ (static_cast<uint64_t>(word) >> i & 0xFFu)) * 0x100000001B3u;
      }
    }
  }
  uint64_t Digest() const { return (hash_ ^ hash_ >> 48) & 0xFFFFFFFFFFFFu; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace

std::string ServingTopology::name() const {
  if (is_whole) return "one process, rows through host memory";
  return std::to_string(m) + "A" + std::to_string(slots.size()) + "E" +
         (micro_batches > 1 ? ", " + std::to_string(micro_batches) + " micro-batches" : "") +
         (in_place ? ", in place" : "") + (has_processes ? ", processes" : "");
}

std::string LineOf(const std::string& model, const ServingTopology& topology,
                   const ServingLoad& load) {
  return model + ", " + topology.name() + ", batch " + std::to_string(load.batch) + ", prompt " +
         std::to_string(load.prompt) + ", answer " + std::to_string(load.answer);
}

uint64_t Served::Digest() const {
  Digester digester;
  for (const auto& of : tokens) digester.Add(of);
  for (const auto& of : logit_bits) digester.Add(of);
  return digester.Digest();
}

uint64_t Served::DigestOf(size_t request) const {
  Digester digester;
  digester.Add(tokens[request]);
  digester.Add(logit_bits[request]);
  return digester.Digest();
}

void SetUp(const ModelDescription& model, const ServingTopology& topology, const ServingLoad& load,
           LoopbackCluster::Options& options) {
  const int each = (load.batch + topology.m - 1) / topology.m;
  options.topology =
      dataplane::MakeTopology(topology.m, topology.slots, model.moe_layers(), model.moe.experts,
                              topology.micro_batches, std::max(each, 512));
  if (topology.in_place) options.device_join = dataplane::JoinMemory;
  options.attention.max_batch = each;
  options.attention.swap_bytes = 0;
  options.attention.kv_bytes = int64_t{each} *
                               dataplane::KvPagePool::PagesFor(load.prompt + load.answer) *
                               dataplane::CachePageBytes(model, WireType(model)) * model.layers;
}

LoadClient::LoadClient(LoopbackCluster& cluster, const ModelDescription& model,
                       const ServingLoad& load, int m, int rank)
    : cluster_(cluster), model_(model), load_(load), m_(m) {
  for (int i = 0; i < load.batch; ++i) {
    if (rank < 0 || i % m == rank) requests_.push_back(i);
  }
}

dataplane::AttentionInstance& LoadClient::Asked(int request) const {
  return cluster_.attention(request % m_);
}

void LoadClient::Submit(uint64_t wave, bool hashed) {
  for (const int i : requests_) {
    dataplane::Request request;
    request.key = KeyOf(wave, i);
    for (int p = 0; p < load_.prompt; ++p) {
      request.prompt.push_back((i * 7919 + p * 104729 + 1) % model_.vocab);
    }
    request.max_tokens = hashed ? std::min(load_.answer, kHashedTokens) : load_.answer;
    request.temperature = 0.0f;
    request.want_logits_hash = hashed;
    const Status submitted = Asked(i).Submit(std::move(request));
    JANUS_CHECK(submitted.ok(), submitted.ToString());
  }
}

int64_t LoadClient::AwaitTokens(uint64_t wave, int tokens) {
  for (const int i : requests_) cluster_.Await(KeyOf(wave, i), tokens);
  int64_t there = 0;
  for (const int i : requests_) {
    there += static_cast<int64_t>(cluster_.Await(KeyOf(wave, i), tokens).tokens.size());
  }
  return there;
}

std::vector<LoopbackCluster::Outcome> LoadClient::AwaitAll(uint64_t wave) {
  std::vector<LoopbackCluster::Outcome> outcomes;
  for (const int i : requests_) {
    outcomes.push_back(cluster_.Await(KeyOf(wave, i)));
    JANUS_CHECK(outcomes.back().error.ok(), outcomes.back().error.ToString());
  }
  return outcomes;
}

Status LoadClient::TakeTokens(const std::vector<LoopbackCluster::Outcome>& outcomes,
                              Served& served) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    std::vector<int32_t>& before = served.tokens[i];
    const std::vector<int32_t>& now = outcomes[i].tokens;
    if (now.size() < before.size() || !std::equal(before.begin(), before.end(), now.begin())) {
      return DataLoss("request " + std::to_string(i) +
                      " has other tokens when it comes again to the same service");
    }
    before = now;
  }
  return OkStatus();
}

void LoadClient::Hashed(Served& served) {
  Submit(1, true);
  for (const LoopbackCluster::Outcome& outcome : AwaitAll(1)) {
    served.tokens.push_back(outcome.tokens);
    std::vector<uint64_t>& bits = served.logit_bits.emplace_back();
    for (const dataplane::TokenEvent& event : outcome.events) {
      if (event.has_logits_hash) bits.push_back(event.logits_hash);
    }
  }
}

Status LoadClient::Timed(Served& served) {
  const dataplane::AttentionInstance& asked = Asked(requests_.front());
  const InstanceStatistics before = asked.statistics();
  const MonotonicTime start = MonotonicClock::now();
  Submit(2, false);
  const int64_t there = AwaitTokens(2, 1);
  const MonotonicTime decodes = MonotonicClock::now();
  JANUS_RETURN_IF_ERROR(TakeTokens(AwaitAll(2), served));
  const MonotonicTime end = MonotonicClock::now();
  const InstanceStatistics after = asked.statistics();
  const auto batch = static_cast<int64_t>(requests_.size());
  served.seconds = Seconds(end - start).count();
  const auto decoded = static_cast<double>(batch * load_.answer - there);
  const double window = Seconds(end - decodes).count();
  served.decode_rate = decoded / window;
  served.tpot = decoded > 0 ? static_cast<double>(batch) * window / decoded : 0.0;
  served.step = after.step_seconds_median;
  const double waited = after.wait_seconds - before.wait_seconds;
  const double steps = after.compute_seconds - before.compute_seconds + waited;
  served.wait_share = waited / steps;
  served.host_share = (after.host_seconds - before.host_seconds) / steps;
  return OkStatus();
}

}  // namespace janus::bench
