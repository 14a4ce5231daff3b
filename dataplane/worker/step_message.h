#pragma once

#include "dataplane/engine/request.h"
#include "proto/tokens.pb.h"

namespace janus::dataplane {

// Adds an event to what its request is owed on the wire; several steps may be merged into one.
void AddEvent(const TokenEvent& event, v1::RequestTokens& to);

}  // namespace janus::dataplane
