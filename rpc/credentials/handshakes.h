#pragma once

#include "common/log.h"
#include "rpc/credentials/peers.h"

namespace janus {

// gRPC tells of handshakes that fail before there is a certificate to judge (plain text, none at
// all) in its own log alone. While this lives that log goes, errors only, through `log` instead of
// to stderr, and those are counted. Of the whole process: one at a time. `refusals` outlives it.
class HandshakeCounter {
 public:
  HandshakeCounter(RefusalCounts& refusals, const Logger& log);
  ~HandshakeCounter();
  HandshakeCounter(const HandshakeCounter&) = delete;
  HandshakeCounter& operator=(const HandshakeCounter&) = delete;

  // What gRPC has said; an error, or less.
  void Hear(const char* message, bool is_error);

 private:
  RefusalCounts& refusals_;
  const Logger log_;
};

}  // namespace janus
