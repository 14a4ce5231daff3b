#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "operator/certificates/issuer.h"
#include "rpc/credentials/identity.h"

namespace janus::control {

// What has been issued in the name of one authority's URI, and what must be issued now. Pure but
// for Issue, which draws keys.

struct IssuedAuthority {
  std::string id;  // of its pair, for `IssuedLeaf::issuer`; never used twice
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
  std::string renewal;                       // the last that was asked for and begun

  const IssuedLeaf* Find(PeerRole role) const;
  // ca.crt: the certificates of all authorities.
  std::string Bundle() const;
  // What PlanIssue and NextIssue ask for, and no more: all but certificates and keys.
  Issued WithoutPairs() const;
};

// As cert-manager and linkerd have them: a year for who issues; for leaves what lets a service live
// for a month without an operator. Each is renewed when two thirds of its life are over.
struct Lifetimes {
  Seconds authority = std::chrono::hours(365 * 24);
  Seconds leaf = std::chrono::hours(90 * 24);
  // How long a new authority has been in the bundle before its first leaf: every machine has it by
  // then (a kubelet takes a minute or two).
  Seconds spread = std::chrono::hours(1);
  // How far a certificate's validity begins in the past, for clocks that are behind.
  Seconds skew = std::chrono::minutes(5);
};

struct IssuePlan {
  std::vector<std::string> dropped;  // ids of authorities that have expired
  bool makes_authority = false;
  // The authority that signs from now on; nothing: the one that is made.
  std::optional<std::string> signer;
  std::vector<PeerRole> leaves;  // to issue, in place of those there are
  std::string renewal;           // Issued's
  bool is_empty() const { return dropped.empty() && !makes_authority && leaves.empty(); }
};

// What is known beside what was issued.
struct IssueCircumstances {
  // Everybody's ca.crt has had all authorities for `spread`. Until then no other one signs than
  // those whose leaves are there.
  bool is_heard = true;
  // Everybody has had all of it for `spread`. Until then no authority is dropped.
  bool is_shown = true;
  // Somebody asks for other keys, by a text that has not been asked with before; empty: nobody.
  std::string renewal = {};
};

// An authority is dropped when it has expired, or when nobody has had a leaf of it for `spread`.
IssuePlan PlanIssue(const Issued& issued, const std::vector<PeerRole>& roles,
                    const Lifetimes& lifetimes, WallTime now,
                    const IssueCircumstances& circumstances = {});

// The next time at which PlanIssue has something to do, if nothing else happens.
WallTime NextIssue(const Issued& issued, const Lifetimes& lifetimes, WallTime now);

// `issued` with the plan carried out.
Result<Issued> Issue(Issued issued, const IssuePlan& plan, const std::string& authority_uri,
                     const Lifetimes& lifetimes, WallTime now);

// As a Secret holds it. InvalidArgument: it is not that.
std::string WriteIssued(const Issued& issued);
Result<Issued> ReadIssued(const std::string& text);

}  // namespace janus::control
