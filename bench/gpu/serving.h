#pragma once

#include <string>
#include <vector>

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
  std::string name() const;
};

struct Served {
  std::vector<std::vector<int32_t>> tokens;  // by request
  double seconds = 0.0;                      // from the first submission to the last token
  double tpot = 0.0;                         // median of attention instance 0
  double step = 0.0;                         // likewise, of a step
  // Of the steps of attention instance 0: waiting for experts; on the host, in neither kernels,
  // with the copies and waits that belong to them, nor such waiting.
  double wait_share = 0.0;
  double host_share = 0.0;
};

// `options`: device, contexts and where weights lie; all else is set here.
Served Serve(const dataplane::HeldModel& held, dataplane::LoopbackCluster::Options options,
             const ServingTopology& topology, const ServingLoad& load);

// Every topology with the same load, a line each; the tokens of all against the first's. Lines
// that stand there are not made again, but for the first's tokens, which the others need. False:
// tokens differ.
bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const dataplane::LoopbackCluster::Options& options,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results);

}  // namespace janus::bench
