#pragma once

#include <optional>
#include <string>

#include "common/clock.h"
#include "operator/api/tree.h"
#include "operator/reconcile/status/service_event.h"

namespace janus::control {

// One release of the operator writes a service. Two releases over one namespace would undo each
// other's writes for ever, because no lease is common to them. status.operator of the service names
// the release that writes, its holder. Another release writes only its own name as challenger, to
// learn whether the holder lives:
//
//   no release holds it               the first writer holds it
//   another release holds it          we challenge; the holder removes our name within kAnswer
//   the holder does not answer        it is gone or stopped: we hold the service from now on
//   the holder answers                we write nothing; after kChallengePause we challenge again
//
// All writes are compare-and-swaps of the status, so of two releases one wins.

inline constexpr Seconds kAnswer{60};  // longer than a restart of the holder
inline constexpr Seconds kChallengePause{600};
// So long after its last challenge a release counts as running.
inline constexpr Seconds kRivalFor{900};

struct Claim {
  std::string holder;      // "<namespace>/<name>" of the release; empty: none
  std::string challenger;  // empty: none asks
  friend bool operator==(const Claim&, const Claim&) = default;
};
Claim ClaimOf(const Node& service);
void SetClaim(Node& service, const Claim& claim);

// What a process remembers of one service.
struct ClaimMemory {
  std::optional<MonotonicTime> challenged;  // our last challenge
  std::string met;                          // the holder that an Event has named
  std::string rival;                        // the last challenger of ours
  std::optional<MonotonicTime> rival_asked;

  // The other release that asks for our service now; empty: none.
  std::string RivalAt(MonotonicTime now) const;
};

struct ClaimDecision {
  bool is_ours = false;            // the pass goes on, after `write`
  std::optional<Node> write = {};  // the service with another claim in its status
  std::optional<ServiceEvent> event = {};
  std::optional<MonotonicTime> again = {};
};

// `release`: ours; empty, as on one machine: everything is ours. Pure, but for `memory`.
ClaimDecision DecideClaim(const Node& service, const std::string& release, MonotonicTime now,
                          ClaimMemory& memory);

}  // namespace janus::control
