#pragma once

#include <functional>

#include "bench/gpu/serving_load.h"
#include "common/status.h"
#include "tests/support/held_model.h"

namespace janus::bench {

// What each process of a service makes for itself.
struct ProcessService {
  dataplane::LoopbackCluster::Options options;  // device, contexts, place of the weights
  std::function<dataplane::HeldModel()> make_model;
};

// Exit status of a process that cannot serve. It has written the reason to standard error.
inline constexpr int kNotInPlace = 10;
inline constexpr int kOtherTokens = 11;

// Runs attention and expert instances as separate processes, each with a device context. They
// exchange over shared memory, or in place if the topology says so. With the same options and model
// they must give the same bits as Serve. Times of kernels are not measured. No process outlives the
// call.
//
// The caller must not have used a GPU: a child cannot use what it inherits of one. Unavailable: a
// process ended early; the message has its name and status, and its output is on standard error.
// FailedPrecondition, DataLoss: as in Serve.
Result<Served> ServeByProcesses(const ProcessService& service, const ServingTopology& topology,
                                const ServingLoad& load);

}  // namespace janus::bench
