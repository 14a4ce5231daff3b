#pragma once

#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// Adds an event to the unsent output of its request. Several steps may be merged into one message.
void AddEvent(const TokenEvent& event, v1::RequestTokens& to);

}  // namespace janus::dataplane
