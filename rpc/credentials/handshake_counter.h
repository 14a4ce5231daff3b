#pragma once

#include "common/log.h"
#include "rpc/credentials/mutual_tls.h"

namespace janus {

// gRPC reports handshakes that fail before there is a certificate (plain text, no certificate) only
// in its own log. While this lives, that log's errors go to `log` instead of stderr, and failed
// handshakes are counted. The log is global, so there may be one object at a time. `refusals`
// outlives it.
class HandshakeCounter {
 public:
  HandshakeCounter(RefusalCounts& refusals, const Logger& log);
  ~HandshakeCounter();
  HandshakeCounter(const HandshakeCounter&) = delete;
  HandshakeCounter& operator=(const HandshakeCounter&) = delete;

  // Handles a message of gRPC's log; an error, or less severe.
  void Hear(const char* message, bool is_error);

 private:
  RefusalCounts& refusals_;
  const Logger log_;
};

}  // namespace janus
