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

// ECDSA over P-256 with SHA-256, keys and serial numbers from OpenSSL's generator. Errors are
// Internal: OpenSSL's own words. No I/O but the machine's randomness.

// An authority that signs itself and issues leaves, no further authorities. `uri` says for whom.
Result<KeyPair> MakeAuthority(const std::string& uri, const Validity& validity);

// A certificate of that authority for `uri`, for both ends of a connection.
Result<KeyPair> IssueLeaf(const KeyPair& authority, const std::string& uri,
                          const Validity& validity);

}  // namespace janus::control
