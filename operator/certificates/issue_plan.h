#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/certificates/issuer.h"
#include "rpc/credentials/identity.h"

namespace janus::control {

// What one authority URI has issued, and what must be issued now. Pure except for Issue, which
// generates keys.

struct IssuedAuthority {
  std::string id;  // for `IssuedLeaf::issuer`; never reused
  KeyPair pair;
  WallTime made;
  WallTime expires;
};

struct IssuedLeaf {
  PeerRole role = PeerRole::kGateway;
  std::string issuer;
  KeyPair pair;
  WallTime made;
  WallTime expires;
  uint64_t content = 0;  // a fingerprint of the certificate
};

struct Issued {
  std::vector<IssuedAuthority> authorities;  // oldest first
  std::vector<IssuedLeaf> leaves;            // one per role
  std::string renewal;                       // the last renewal that was requested and started

  const IssuedLeaf* Find(PeerRole role) const;
  // ca.crt: the certificates of all authorities.
  std::string Bundle() const;
  // Without certificates and keys, which PlanIssue and NextIssue do not need.
  Issued WithoutPairs() const;
};

// As in cert-manager and linkerd: a year for authorities, and for leaves long enough that a service
// runs a month without an operator. Each is renewed after two thirds of its lifetime.
struct Lifetimes {
  Seconds authority = std::chrono::hours(365 * 24);
  Seconds leaf = std::chrono::hours(90 * 24);
  // Time between the addition of a new authority to the bundle and its first leaf. By then every
  // machine has it (a kubelet takes a minute or two).
  Seconds spread = std::chrono::hours(1);
  // Start of a certificate's validity before now, for clocks that are slow.
  Seconds skew = std::chrono::minutes(5);
};

struct IssuePlan {
  std::vector<std::string> dropped;  // ids of expired authorities
  bool makes_authority = false;
  // The authority that signs from now on; nothing: the new one.
  std::optional<std::string> signer;
  std::vector<PeerRole> leaves;  // to issue, replacing the existing ones
  std::string renewal;           // value for Issued::renewal
  bool is_empty() const { return dropped.empty() && !makes_authority && leaves.empty(); }
};

// State beyond what was issued.
struct IssueCircumstances {
  // All processes have had all authorities in their ca.crt for `spread`. Until then only
  // authorities that already have leaves sign.
  bool is_heard = true;
  // All processes have had their complete Secret for `spread`. Until then no authority is dropped.
  bool is_shown = true;
  // A user requests new keys with this text, which was not used before; empty: no request.
  std::string renewal = {};
};

// Drops an authority once it has expired, or no process has had a leaf of it for `spread`.
IssuePlan PlanIssue(const Issued& issued, const std::vector<PeerRole>& roles,
                    const Lifetimes& lifetimes, WallTime now,
                    const IssueCircumstances& circumstances = {});

// The next time at which PlanIssue has something to do, if nothing else happens.
WallTime NextIssue(const Issued& issued, const Lifetimes& lifetimes, WallTime now);

// Carries out the plan on `issued`.
Result<Issued> Issue(Issued issued, const IssuePlan& plan, const std::string& authority_uri,
                     const Lifetimes& lifetimes, WallTime now);

// The format of the Secret. InvalidArgument: another format.
std::string WriteIssued(const Issued& issued);
Result<Issued> ReadIssued(const std::string& text);

}  // namespace janus::control
