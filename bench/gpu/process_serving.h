#pragma once

#include <functional>

#include "bench/gpu/serving_load.h"
#include "common/status.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// What each process of a service makes for itself.
struct ProcessService {
  dataplane::LoopbackCluster::Options options;  // device, contexts and where weights lie
  std::function<dataplane::HeldModel()> make_model;
};

// How a process ends that has told on standard error why it does not serve.
inline constexpr int kNotInPlace = 10;
inline constexpr int kOtherTokens = 11;

// Attention and expert instances as processes of their own, with a device context each, over shared
// memory, or in place where the topology says so. Those of a topology with the same options and
// model give the bits of Serve; where kernels run is not watched. No process outlives the call.
//
// To be called by a process that has touched no GPU: what a child inherits of one it cannot use.
// Unavailable: a process has ended before its time, with its name and how; what it had to say is on
// standard error. FailedPrecondition, DataLoss: as Serve.
Result<Served> ServeByProcesses(const ProcessService& service, const ServingTopology& topology,
                                const ServingLoad& load);

}  // namespace janus::bench
