#pragma once

#include "common/log.h"
#include "proto/credentials/peers.h"

namespace janus {

// gRPC tells of handshakes that fail before there is a certificate to judge (plain text, none at
// all) in its own log alone. Sends that log, errors only, through `log` instead of to stderr, and
// counts those. For the whole process; `refusals` outlives it.
void CountHandshakes(RefusalCounts& refusals, const Logger& log);

}  // namespace janus
