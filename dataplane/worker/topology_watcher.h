#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "dataplane/worker/worker.h"
#include "proto/control.pb.h"

namespace janus::dataplane {

// How many gateways and others may watch one worker's topology.
inline constexpr int kMostWatchers = 1024;

// One stream of Control.WatchTopology: the topology that serves readers of texts by that
// tokenizer (Worker::TopologyFor), and each that follows. Holds no thread. Ends itself and
// deletes itself.
//
// `worker` and `watchers` outlive it; it counts itself in `watchers`.
grpc::ServerWriteReactor<v1::GetTopologyReply>* WatchTopologies(Worker& worker,
                                                                std::string text_digest,
                                                                std::atomic<int>& watchers);

// The stream's end with an error.
grpc::ServerWriteReactor<v1::GetTopologyReply>* RefuseWatch(const Status& status);

}  // namespace janus::dataplane
