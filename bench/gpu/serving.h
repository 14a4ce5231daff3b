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

// `options`: device, contexts and where weights lie; all else is set here. The clock is of the
// contexts' device. FailedPrecondition: it is to be in place, and some member reads a peer's rows
// through the host. DataLoss: a request had other tokens when it came again.
Result<Served> Serve(const dataplane::HeldModel& held, dataplane::LoopbackCluster::Options options,
                     StreamClock& clock, const ServingTopology& topology, const ServingLoad& load);

// Every topology with the same load, a line each; the digest of each against the first's. Lines
// that stand there are not made again: `refused`, where Serve has found a FailedPrecondition, and
// `same_bits` 0 where a topology had other tokens when asked again, among them. False: digests
// differ, or a topology was not served for another reason, which it writes to standard error.
bool IsRefused(const kernels::cuda::Results& results, const std::string& line);
using ServeOne = std::function<Result<Served>(const ServingTopology&)>;
bool ServeEach(const std::string& name, const ServeOne& serve,
               const std::vector<ServingTopology>& topologies, const ServingLoad& load,
               kernels::cuda::Results& results);

// Request 0 is the same in every load of one prompt and answer: whether its tokens and hashes of
// logits are, too, of every topology, whatever else is in its batch. A line with the answer once
// all loads have been served. False: they differ, which it writes to standard error.
bool SameOverLoads(const std::string& name, const std::vector<ServingTopology>& topologies,
                   std::span<const ServingLoad> loads, kernels::cuda::Results& results);

// The same as ServeEach by Serve.
using MakeClock = std::function<std::unique_ptr<StreamClock>()>;
bool ServeAll(const std::string& name, const dataplane::HeldModel& held,
              const dataplane::LoopbackCluster::Options& options, const MakeClock& make_clock,
              const std::vector<ServingTopology>& topologies, const ServingLoad& load,
              kernels::cuda::Results& results);

}  // namespace janus::bench
