#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/gpu/busy_context.h"
#include "bench/gpu/results.h"
#include "bench/gpu/serving_load.h"
#include "tests/support/held_model.h"
#include "tests/support/loopback_cluster.h"

namespace janus::bench {

// `options`: device, contexts and place of the weights; Serve sets the rest. `clock` must be for
// the contexts' device. FailedPrecondition: the topology is in place, but a member reads a peer's
// rows through the host. DataLoss: a request got other tokens when it was repeated.
Result<Served> Serve(const dataplane::HeldModel& held, dataplane::LoopbackCluster::Options options,
                     StreamClock& clock, const ServingTopology& topology, const ServingLoad& load);

// Serves every topology with the same load, writes a line for each, and compares digests with the
// first's. A line that is in the file is not made again, even if it has `refused` (Serve returned
// FailedPrecondition) or `same_bits` 0 (a topology gave other tokens when it was repeated). False:
// digests differ, or a topology failed for another reason; standard error says which.
bool IsRefused(const kernels::cuda::Results& results, const std::string& line);
using ServeOne = std::function<Result<Served>(const ServingTopology&)>;
bool ServeEach(const std::string& name, const ServeOne& serve,
               const std::vector<ServingTopology>& topologies, const ServingLoad& load,
               kernels::cuda::Results& results);

// Request 0 is the same in every load with the same prompt and answer lengths. Checks that it gets
// the same tokens and hashes of logits in every topology and batch. Writes a line with the answer
// when all loads have been served. False: they differ; standard error says how.
bool SameOverLoads(const std::string& name, const std::vector<ServingTopology>& topologies,
                   std::span<const ServingLoad> loads, kernels::cuda::Results& results);

// ServeEach with Serve.
using MakeClock = std::function<std::unique_ptr<StreamClock>()>;
bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const dataplane::LoopbackCluster::Options& options, const MakeClock& make_clock,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results);

}  // namespace janus::bench
