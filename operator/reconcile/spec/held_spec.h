#pragma once

#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// What serves is kept when the newest spec cannot be carried out, or not yet. All pure.

// Members with and without TLS cannot call each other, nor can a gateway of one kind call a member
// of the other: all that runs stays of the kind that it is until none of its pods is left.
void KeepTls(const PlanningSide& from, Desired& out);

// There is no room for what is wanted. What was wanted before, as far as it served, is kept whole:
// a lost pod is replaced by one like it.
void KeepCommitted(const PlanningSide& from, Desired& out);

// Says that an edit is not carried out, which has no room. If the spec is the one by which all came
// to serve, it is as wanted: only another spec would need room. A scaler's own status reports it.
void SayWhatIsKept(const PlanningSide& from, Desired& out);

// Whether an edit that can never be carried out leaves something that serves to be kept.
bool HasLastToHold(const PlanningSide& from);

// While the service is paused: whether an edit would begin something if it were not. Gateways are
// not paused.
bool HasWaitingEdits(const ServiceObserved& seen, const Side& side);

}  // namespace janus::control
