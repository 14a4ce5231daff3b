#pragma once

#include "operator/reconcile/spec/desired.h"

namespace janus::control {

// Keeps running services up while the newest spec cannot be carried out, or not yet. All pure.

// Members with and without TLS cannot call each other, and neither can gateways call members of the
// other kind. So all pods stay with or without TLS until none is left.
void KeepTls(const PlanningSide& from, Desired& out);

// If the wanted state does not fit, keeps up the last state that served: lost pods are replaced by
// equal ones.
void KeepCommitted(const PlanningSide& from, Desired& out);

// Reports that an edit is not carried out for lack of resources. Does not report it if all pods run
// under the newest spec. A scaler's status reports its own requests.
void SayWhatIsKept(const PlanningSide& from, Desired& out);

// True if an invalid edit leaves a running service to keep up.
bool HasLastToHold(const PlanningSide& from);

// While the service is paused: true if an edit would start something otherwise. Gateways are not
// paused.
bool HasWaitingEdits(const ServiceObserved& seen, const Side& side);

}  // namespace janus::control
