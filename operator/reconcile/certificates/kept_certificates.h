#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/clock.h"
#include "operator/reconcile/status/cause.h"
#include "rpc/credentials/identity.h"

namespace janus::control {

// A role's Secret as this process last wrote it. Secrets are never read.
struct AppliedSecret {
  struct Part {
    uint64_t hash = 0;                   // of the wanted content
    std::optional<MonotonicTime> since;  // when it was written; nothing: not yet
    void Want(uint64_t wanted) {
      if (hash != wanted) *this = {wanted, std::nullopt};
    }
    friend bool operator==(const Part&, const Part&) = default;
  };
  Part whole;
  Part authorities;  // its ca.crt
  MonotonicTime at;  // of the last write
  WallTime expires;  // of its certificate
  friend bool operator==(const AppliedSecret&, const AppliedSecret&) = default;
};

// What this process knows of one service's certificates.
struct KeptCertificates {
  bool is_known = false;         // they were checked at least once
  bool can_call = false;         // the operator's certificate for calls to workers is valid
  std::optional<WallTime> next;  // when the next one is due; nothing: not known
  std::map<PeerRole, AppliedSecret> secrets;
  Cause refused;                          // a certificate is due and could not be written
  std::optional<WallTime> refused_since;  // in every pass until now
  friend bool operator==(const KeptCertificates&, const KeptCertificates&) = default;
};

}  // namespace janus::control
