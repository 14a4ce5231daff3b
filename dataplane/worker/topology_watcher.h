#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "dataplane/worker/worker.h"
#include "proto/control.pb.h"

namespace janus::dataplane {

// The most streams that may watch one worker's topology.
inline constexpr int kMostWatchers = 1024;

// One stream of Control.WatchTopology: the serving topology for clients with that tokenizer
// (Worker::TopologyFor), and each one that follows. Holds no thread. Ends and deletes itself.
//
// `worker` and `watchers` outlive it; it counts itself in `watchers`.
grpc::ServerWriteReactor<v1::GetTopologyReply>* WatchTopologies(Worker& worker,
                                                                std::string text_digest,
                                                                std::atomic<int>& watchers);

// Ends the stream with an error.
grpc::ServerWriteReactor<v1::GetTopologyReply>* RefuseWatch(const Status& status);

}  // namespace janus::dataplane
