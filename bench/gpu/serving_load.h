#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {

// What is asked of a service: so many requests at once, all of one length.
struct ServingLoad {
  int batch = 0;   // requests, dealt over the attention instances
  int prompt = 0;  // tokens
  int answer = 0;  // tokens, greedy
};

// Attention and expert instances as threads of one process, or each a process, each with streams of
// its own.
struct ServingTopology {
  int m = 1;
  std::vector<int> slots;  // of each expert instance
  int micro_batches = 1;
  // No expert instances and no exchange: the attention instance's thread computes its experts, too.
  bool is_whole = false;
  // What the instances exchange stays on the device (dataplane/comm/transport/device_slots.h).
  bool in_place = false;
  bool has_processes = false;
  std::string name() const;
};
// The name of its line.
std::string LineOf(const std::string& model, const ServingTopology& topology,
                   const ServingLoad& load);

// Of the load served by one service: first with the logits of some tokens hashed, which warms up,
// then timed, then, of threads, with contexts that mark where kernels run.
struct Served {
  std::vector<std::vector<int32_t>> tokens;       // by request; the same each time
  std::vector<std::vector<uint64_t>> logit_bits;  // by request: hashes of its first tokens' logits
  double seconds = 0.0;                           // from the first submission to the last token
  // Of the time from when all requests have a first token:
  double decode_rate = 0.0;    // tokens a second
  double tpot = 0.0;           // seconds, mean
  double outside_kernels = 0;  // the share in which no instance's kernels run, at the least
  double step = 0.0;           // seconds, median of attention instance 0
  // Of the steps of attention instance 0: waiting for experts; on the host, in neither kernels,
  // with the copies and waits that belong to them, nor such waiting.
  double wait_share = 0.0;
  double host_share = 0.0;

  // One number of all tokens and bits, less than 2^48; of those of one request.
  uint64_t Digest() const;
  uint64_t DigestOf(size_t request) const;
};

// The topology for so many requests, and caches for just these.
void SetUp(const ModelDescription& model, const ServingTopology& topology, const ServingLoad& load,
           dataplane::LoopbackCluster::Options& options);

// Asks a service for the load, or one process of it for what is dealt to its instance.
class LoadClient {
 public:
  // `rank`: of the attention instance that is asked; -1: all are here.
  LoadClient(dataplane::LoopbackCluster& cluster, const ModelDescription& model,
             const ServingLoad& load, int m, int rank = -1);

  // Waves, each the whole load once; those of one number are the same requests.
  void Submit(uint64_t wave, bool hashed);
  // Until each has so many tokens: how many there are.
  int64_t AwaitTokens(uint64_t wave, int tokens);
  std::vector<dataplane::LoopbackCluster::Outcome> AwaitAll(uint64_t wave);
  // The answers that begin as those before did take their place. DataLoss: one does not.
  static Status TakeTokens(const std::vector<dataplane::LoopbackCluster::Outcome>& outcomes,
                           Served& served);

  // A wave with hashes of the first logits; a wave that is timed, which may fail as TakeTokens.
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
