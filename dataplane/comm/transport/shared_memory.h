#pragma once

#include <memory>
#include <stop_token>

#include "common/fd.h"
#include "dataplane/comm/handshake/meeting.h"
#include "dataplane/comm/transport/segment.h"

namespace janus::dataplane {

// The instance's own segment: a memfd of the size that the layout asks for, sealed against
// shrinking, all of it allocated, so that a full file system or a memory limit on it is an error
// here. (A cgroup's limit on memory is not: the kernel charges the pages as they are touched, and
// kills when they are too many.) Zeroed and stamped; `fd` is what peers map it by.
// ResourceExhausted: the memory is not there.
Result<Segment> CreateSharedSegment(const TransportLayout& layout, Fd& fd);

// Maps what a peer has sent. InvalidArgument: no sealed memfd, too small, of another layout.
Result<Segment> MapPeerSegment(const Fd& fd, const TransportLayout& layout, PeerId peer);

// Connects one instance with its peers over memory that they map from each other; nothing has a
// name that could be left behind. Blocks until all are there. Errors: those of MeetPeers and of the
// two functions above.
Result<std::unique_ptr<Transport>> ConnectSharedMemory(const TransportLayout& layout,
                                                       const ConnectOptions& options,
                                                       ExchangeDoor& door, std::stop_token stop);

}  // namespace janus::dataplane
