#pragma once

#include <optional>
#include <stop_token>

#include "common/clock.h"
#include "common/status.h"
#include "dataplane/comm/transport/transport.h"

namespace janus::dataplane {

// When all members of a service are stopped at once, each sees others go before its own turn comes.
// A member that was asked to stop therefore says so before its connections close, and who finds a
// peer gone that had said it waits for its own stop instead of reporting a loss.
//
// Both belong to the step thread, at the end of its loop.

// Tells every peer that this member was asked to stop. A peer that cannot be told is left out: it
// is gone, or does not read.
void SayGoodbye(Transport& transport, uint64_t epoch);

// What the end of a step loop with `status` means. Unavailable after a peer's goodbye, `left`
// (already read) or one that is still unread: OK once `stop` or `departing` is requested, and when
// that does not happen for `patience`, Unavailable naming who left. Anything else is returned as it
// is. Blocks for that long.
Status JudgeLoss(Status status, Transport& transport, std::optional<PeerId> left,
                 const std::stop_token& stop, const std::stop_token& departing, Seconds patience);

}  // namespace janus::dataplane
