#pragma once

#include <optional>
#include <stop_token>

#include "common/clock.h"
#include "common/status.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// When all members of a service are stopped at once, each sees peers go before its own stop comes.
// So a member that was asked to stop tells its peers before its connections close. A member that
// loses such a peer waits for its own stop instead of reporting a loss.
//
// The step thread calls both functions at the end of its loop.

// Tells every peer that this member was asked to stop. A peer that cannot be told is left out: it
// is gone, or does not read.
void SayGoodbye(Transport& transport, uint64_t epoch);

// Decides what the end of a step loop with `status` means. It matters if `status` is Unavailable
// and a peer has sent a goodbye (`left`, or one that is still unread). Then this blocks until
// `stop` or `departing` is requested and returns OK, or returns Unavailable naming the peer after
// `patience`. Any other status is returned unchanged.
Status JudgeLoss(Status status, Transport& transport, std::optional<PeerId> left,
                 const std::stop_token& stop, const std::stop_token& departing, Seconds patience);

}  // namespace janus::dataplane
