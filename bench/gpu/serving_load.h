#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {

// The load of a service: this many requests at once, all of one length.
struct ServingLoad {
  int batch = 0;   // requests, dealt over the attention instances
  int prompt = 0;  // tokens
  int answer = 0;  // tokens, greedy
};

// Attention and expert instances, as threads of one process or each as a process. Each has separate
// streams.
struct ServingTopology {
  int m = 1;
  std::vector<int> slots;  // of each expert instance
  int micro_batches = 1;
  // No expert instances and no exchange: the attention instance's thread also computes experts.
  bool is_whole = false;
  // The exchange stays on the device (dataplane/comm/transport/device_slots.h).
  bool in_place = false;
  bool has_processes = false;
  std::string name() const;
};
// The name of the topology's line.
std::string LineOf(const std::string& model, const ServingTopology& topology,
                   const ServingLoad& load);

// Results of one service. It serves the load first with the logits of some tokens hashed, which
// warms up; then timed; then, for threads, with contexts that mark where kernels run.
struct Served {
  std::vector<std::vector<int32_t>> tokens;       // by request; the same each time
  std::vector<std::vector<uint64_t>> logit_bits;  // by request: hashes of its first tokens' logits
  double seconds = 0.0;                           // from the first submission to the last token
  // From the time when all requests have a first token:
  double decode_rate = 0.0;    // tokens a second
  double tpot = 0.0;           // seconds, mean
  double outside_kernels = 0;  // the least share of time without kernels of any instance
  double step = 0.0;           // seconds, median of attention instance 0
  // Shares of the steps of attention instance 0: waiting for experts; and on the host, that is
  // outside kernels with their copies and waits, and outside that waiting.
  double wait_share = 0.0;
  double host_share = 0.0;

  // A digest of all tokens and bits, less than 2^48; the same for one request.
  uint64_t Digest() const;
  uint64_t DigestOf(size_t request) const;
};

// Sets the topology for the load, with caches of just this size.
void SetUp(const ModelDescription& model, const ServingTopology& topology, const ServingLoad& load,
           dataplane::LoopbackCluster::Options& options);

// Sends the load to a service; in a process of it, only the part of this instance.
class LoadClient {
 public:
  // `rank`: the attention instance that gets requests; -1: all are in this process.
  LoadClient(dataplane::LoopbackCluster& cluster, const ModelDescription& model,
             const ServingLoad& load, int m, int rank = -1);

  // Submits a wave: the whole load once. Waves with the same number have the same requests.
  void Submit(uint64_t wave, bool hashed);
  // Waits until each request has `tokens` tokens. Returns how many tokens there are.
  int64_t AwaitTokens(uint64_t wave, int tokens);
  std::vector<dataplane::LoopbackCluster::Outcome> AwaitAll(uint64_t wave);
  // Takes these answers in place of the earlier ones. DataLoss: an answer does not begin like the
  // earlier one.
  static Status TakeTokens(const std::vector<dataplane::LoopbackCluster::Outcome>& outcomes,
                           Served& served);

  // Hashed: a wave with hashes of the first logits. Timed: a timed wave; it can fail like
  // TakeTokens.
  void Hashed(Served& served);
  Status Timed(Served& served);

 private:
  dataplane::AttentionInstance& Asked(int request) const;

  dataplane::LoopbackCluster& cluster_;
  const ModelDescription& model_;
  const ServingLoad load_;
  const int m_;
  std::vector<int> requests_;  // of the load, by number
};

}  // namespace janus::bench
