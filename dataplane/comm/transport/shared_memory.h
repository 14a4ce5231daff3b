#pragma once

#include <memory>
#include <stop_token>

#include "common/fd.h"
#include "dataplane/comm/handshake/handshake.h"
#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {

// The instance's own segment: a memfd of the layout's size, sealed against shrinking, zeroed and
// stamped. All of it is allocated here, so that a full file system or its memory limit is an error
// here. (A cgroup's memory limit is not: the kernel charges pages when they are touched, and kills
// the process if they are too many.) Peers map it by `fd`. ResourceExhausted: not enough memory.
Result<Segment> CreateSharedSegment(const TransportLayout& layout, Fd& fd);

// Maps the segment that a peer has sent. InvalidArgument: no sealed memfd, too small, or of another
// layout.
Result<Segment> MapPeerSegment(const Fd& fd, const TransportLayout& layout, PeerId peer);

// Connects one instance with its peers over memory that they map from each other. Nothing has a
// name, so a crash leaves nothing behind. Blocks until all peers are connected. Errors: those of
// ConnectPeers and of the two functions above.
Result<std::unique_ptr<Transport>> ConnectSharedMemory(const TransportLayout& layout,
                                                       const ConnectOptions& options,
                                                       ExchangeListener& listener,
                                                       std::stop_token stop);

}  // namespace janus::dataplane
