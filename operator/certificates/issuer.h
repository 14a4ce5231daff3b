#pragma once

#include <string>

#include "common/clock.h"
#include "common/status.h"

namespace janus::control {

// A certificate and its private key, PEM.
struct KeyPair {
  std::string certificate;
  std::string key;

  friend bool operator==(const KeyPair&, const KeyPair&) = default;
};

struct Validity {
  WallTime from;
  WallTime until;
};

// ECDSA over P-256 with SHA-256; keys and serial numbers come from OpenSSL's generator. Errors are
// Internal with OpenSSL's text. The only I/O is the system's randomness.

// A self-signed authority that may issue leaves but no further authorities. `uri` is its identity.
Result<KeyPair> MakeAuthority(const std::string& uri, const Validity& validity);

// A certificate for `uri` from that authority, for both ends of a connection.
Result<KeyPair> IssueLeaf(const KeyPair& authority, const std::string& uri,
                          const Validity& validity);

}  // namespace janus::control
