#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/busy_context.h"
#include "bench/gpu/results.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {

// What is asked of a service: so many requests at once, all of one length.
struct ServingLoad {
  int batch = 0;   // requests, dealt over the attention instances
  int prompt = 0;  // tokens
  int answer = 0;  // tokens, greedy
};

// Attention and expert instances as threads of one process, each with streams of its own.
struct ServingTopology {
  int m = 1;
  std::vector<int> slots;  // of each expert instance
  int micro_batches = 1;
  // No expert instances and no exchange: the attention instance's thread computes its experts, too.
  bool is_whole = false;
  // What the instances exchange stays on the device (dataplane/comm/device_slots.h).
  bool in_place = false;
  std::string name() const;
};
// The name of its line.
std::string LineOf(const std::string& model, const ServingTopology& topology,
                   const ServingLoad& load);

// Of the load served three times by one service: first with the logits of some tokens hashed, which
// warms up, then timed, then with contexts that mark where kernels run.
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

  // One number of all tokens and bits, less than 2^48.
  uint64_t Digest() const;
};

// `options`: device, contexts and where weights lie; all else is set here. The clock is of the
// contexts' device.
Served Serve(const dataplane::HeldModel& held, dataplane::LoopbackCluster::Options options,
             StreamClock& clock, const ServingTopology& topology, const ServingLoad& load);

// Every topology with the same load, a line each; the digest of each against the first's. Lines
// that stand there are not made again. False: digests differ.
using MakeClock = std::function<std::unique_ptr<StreamClock>()>;
bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const dataplane::LoopbackCluster::Options& options, const MakeClock& make_clock,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results);

}  // namespace janus::bench
